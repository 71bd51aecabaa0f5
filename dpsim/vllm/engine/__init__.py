"""Data-parallel engines that step in lockstep, with coordinator and front ends (specification chapter 2).

Rules, without a simulated machine:

finish_sync.py    what engines send each other at sync points, how often, and what follows
waves.py          waves as one engine sees them, pause and resume
coordination.py   waves as the coordinator sees them
client.py         waves and load as a front end sees them

Services and loops that follow these rules:

layout.py         all participants, by name and number
scheduler.py      the requests of one engine
forward.py        the forward of a step
pause.py          calls of a client to an engine: pause, resume, sleep
answers.py        messages of an engine to its clients
request_counts.py counts of an engine's requests, which front ends use to balance load
loop.py           the loop of one engine
coordinator.py    the coordinator
frontend.py       front ends
batch_job.py      engines without a loop and front ends, which a batch job steps

Deaths:

deaths.py         which participant watches which, and the error that follows
monitor.py        the host thread of an engine that receives notices of deaths, and frees the main thread
watched.py        engines, front ends and a coordinator that end when one of them dies or shuts down
survivors.py      the program `dp_survivors`: ranks continue after one of them died
"""
