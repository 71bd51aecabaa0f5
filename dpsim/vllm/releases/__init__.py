"""Releases of vLLM, and the source pages beside them, each one record in one file.

    record.py      what a record has: `Release`, its parts, and `Absent` for what it lacks
    places.py      the one table of names: which places accept which, and `register_release`
    page_000.py  page_001.py  page_002.py  page_003.py  page_004.py    the source pages
    v0_14.py  v0_17.py  v0_24.py  v0_33.py                             the releases

The pieces lie in `data_parallel/`, `overlap/`, `pipeline/`, `engine/`, `startup/`, `graphs/` and `config/`. Programs,
stacks, `from_vllm` and the comparison with the engine's answers look them up here. A new release is a file with
`V0_34 = V0_33._replace(name="0.34", flow=Flow034)` and a call of `register_release`.
"""

from dpsim.vllm.releases.page_000 import PAGE_000
from dpsim.vllm.releases.page_001 import PAGE_001
from dpsim.vllm.releases.page_002 import PAGE_002, PAGE_002_VERBATIM
from dpsim.vllm.releases.page_003 import PAGE_003
from dpsim.vllm.releases.page_004 import PAGE_004
from dpsim.vllm.releases.places import (
    PAGES,
    PLACES,
    RELEASES,
    Choices,
    Runner,
    name_of,
    named,
    names,
    of_name,
    register_release,
    registered,
)
from dpsim.vllm.releases.record import Absent, Lockstep, Release, RunnerV2, Startup, there
from dpsim.vllm.releases.v0_14 import V0_14
from dpsim.vllm.releases.v0_17 import V0_17
from dpsim.vllm.releases.v0_24 import V0_24
from dpsim.vllm.releases.v0_33 import V0_33

__all__ = [
    "PAGES",
    "PAGE_000",
    "PAGE_001",
    "PAGE_002",
    "PAGE_002_VERBATIM",
    "PAGE_003",
    "PAGE_004",
    "PLACES",
    "RELEASES",
    "V0_14",
    "V0_17",
    "V0_24",
    "V0_33",
    "Absent",
    "Choices",
    "Lockstep",
    "Release",
    "Runner",
    "RunnerV2",
    "Startup",
    "name_of",
    "named",
    "names",
    "of_name",
    "register_release",
    "registered",
    "there",
]
