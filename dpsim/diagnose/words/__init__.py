"""Words: turns the facts of findings into text. No other code makes a sentence of a fact, and none reads one back.

    told(run, finding).message                              # "rank 1 died in step 5"
    text(fact("died", rank=1, step=5))                      # the same, without names of services

A sentence is a row of a table, so a word changes in one place. Reports, JSON, pages, pictures and the debugger share
the table. The checks and the explorer may not import this package, because they know values only.

told.py        the texts of a finding, and its facts as JSON
template.py    fills a row of the tables with the values of a fact
sentences.py   all rows of the tables, by the name of the fact
of_ends.py     the sentences about exceptions, deaths, hangs and loops
of_hosts.py    those about hosts that hang in a call
of_memory.py   those about races, stale memory and graphs
of_repeats.py  those about runs that differ when repeated
of_threads.py  those about the threads, flags and streams of one rank
of_values.py   those about calls and decisions that do not fit
"""

from dpsim.diagnose.words.template import text as text
from dpsim.diagnose.words.told import in_words as in_words
from dpsim.diagnose.words.told import told as told
