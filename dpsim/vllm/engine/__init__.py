"""Engines in lockstep, and the batch job that has no loop (specification 2).

Rules, without a machine:

finish_sync.py    what ranks send each other at the end of a step, how often, and what follows
waves.py          waves as one engine sees them, pause and resume
coordination.py   waves as the coordinator sees them
client.py         waves and load as a front end sees them

Services and loops that follow these rules:

layout.py         all participants, by name and number
scheduler.py      requests of one engine
forward.py        what a step runs
workers.py        the other workers of an engine
pause.py          requests of a client to an engine: pause, resume, sleep
answers.py        messages of an engine to its clients
request_counts.py counts of an engine's requests, and their way to the front ends
loop.py           the loop of one engine
coordinator.py    the coordinator
frontend.py       front ends
batch_job.py      the engines that a batch job steps, and its loop

Deaths:

deaths.py         which participant watches which, and the error that follows
monitor.py        the host thread that receives notices of deaths, and frees the main thread
watched.py        engines, front ends and a coordinator that learn of a death, an exception, a shutdown
survivors.py      the program `dp_survivors`: ranks go on without one that died
"""
