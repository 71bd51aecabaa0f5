"""Engines in lockstep, and the batch job that has no loop (specification 2).

Rules, without a machine:

finish_sync.py    what ranks tell each other at the end of a step, how often, and what follows
waves.py          waves as one engine sees them, pause and resume
coordination.py   waves as the coordinator sees them
client.py         waves and load as a front end sees them

Who lives by them:

layout.py         who takes part, by name and number
scheduler.py      requests of one engine
forward.py        what a step runs
workers.py        the other workers of an engine
pause.py          what is asked of an engine: pause, resume, sleep
answers.py        what an engine tells its clients
request_counts.py how many requests an engine has, as front ends come to know
loop.py           the loop of one engine
coordinator.py    the coordinator
frontend.py       front ends
batch_job.py      the engines that a batch job steps, and its loop

Who lives with deaths:

deaths.py         who watches whom, and what is raised
monitor.py        the host thread that is told, and frees the main thread
watched.py        engines, front ends and a coordinator who learn of a death, an exception, a shutdown
survivors.py      the program `dp_survivors`: ranks go on without one that died
"""
