"""Pictures: the ops of a run or a job in time, who waits for whom, and where a call is missing.

op.py             an op with its times, a hole, a picture
logical_time.py   when each op begins and ends, in ticks
journal_ops.py    the ops of one rank's journal
meetings.py       collectives and transfers: who waits for whom, and who is not there
waits.py          waits of hosts and streams in words, with arrows to what would release them
of_run.py         the picture of a run of dpsim, with what its first finding marks
of_job.py         the picture of a job, from its recordings or dumps
rows.py           lanes and texts as plain data, equal ranks in one row
page.py           the picture as one HTML file, from page.html and the .js files
perfetto.py       the picture as trace events
"""
