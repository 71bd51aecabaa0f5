"""Pictures: draws the ops of a run or a job on a time axis, with waits between ranks and missing calls.

op.py             the elements of a picture: ops with their times, holes (missing calls), arrows
logical_time.py   computes when each op begins and ends, in ticks
journal_ops.py    turns the journal of one rank into ops
meetings.py       joins the parts of collectives and transfers, and finds the missing ones
waits.py          describes the waits of hosts and streams, with arrows to the ops that would end them
decisions.py      marks the decisions that differ, if dpsim blames no rank
turning.py        marks the events whose swap lets the run finish
of_run.py         the picture of a run of dpsim, in which its first finding is marked
of_job.py         the picture of a torch job, from its recordings or dumps
rows.py           the picture as plain data: lanes and texts, with equal ranks in one row
page.py           the picture as one HTML file, from page.html and the .js files
perfetto.py       the picture as trace events for Perfetto
"""
