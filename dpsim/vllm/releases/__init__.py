"""Releases and source pages of vLLM: each is one record in one file, and lists the classes that model it.

A source page is one published file of vLLM, such as page 000, `v1/worker/dp_utils.py` (see docs/keys.md). The files:

    record.py      the fields of a record: `Release`, its parts, and `Absent` for missing pieces
    places.py      the names of releases in each key of a scenario, and `register_release`
    page_000.py  page_001.py  page_002.py  page_003.py  page_004.py    the source pages
    repaired.py                                                        release 0.33 with repairs
    protects.py    the repairs: protections that no release has, by program
    v0_14.py  v0_17.py  v0_24.py  v0_28.py  v0_31.py  v0_33.py         the releases

The classes themselves, called pieces, are in `data_parallel/`, `overlap/`, `pipeline/`, `engine/`, `startup/`,
`graphs/` and `config/`.
"""

from dpsim.vllm.releases.page_000 import PAGE_000 as PAGE_000
from dpsim.vllm.releases.page_001 import PAGE_001 as PAGE_001
from dpsim.vllm.releases.page_002 import PAGE_002 as PAGE_002
from dpsim.vllm.releases.page_003 import PAGE_003 as PAGE_003
from dpsim.vllm.releases.page_004 import PAGE_004 as PAGE_004
from dpsim.vllm.releases.places import PAGES as PAGES
from dpsim.vllm.releases.places import PLACES as PLACES
from dpsim.vllm.releases.places import RELEASES as RELEASES
from dpsim.vllm.releases.places import Choices as Choices
from dpsim.vllm.releases.places import Runner as Runner
from dpsim.vllm.releases.places import name_of as name_of
from dpsim.vllm.releases.places import named as named
from dpsim.vllm.releases.places import names as names
from dpsim.vllm.releases.places import of_name as of_name
from dpsim.vllm.releases.places import register_release as register_release
from dpsim.vllm.releases.places import registered as registered
from dpsim.vllm.releases.record import Absent as Absent
from dpsim.vllm.releases.record import Lockstep as Lockstep
from dpsim.vllm.releases.record import Release as Release
from dpsim.vllm.releases.record import RunnerV2 as RunnerV2
from dpsim.vllm.releases.record import there as there
from dpsim.vllm.releases.repaired import REPAIRED as REPAIRED
from dpsim.vllm.releases.v0_14 import V0_14 as V0_14
from dpsim.vllm.releases.v0_17 import V0_17 as V0_17
from dpsim.vllm.releases.v0_24 import V0_24 as V0_24
from dpsim.vllm.releases.v0_28 import V0_28 as V0_28
from dpsim.vllm.releases.v0_31 import V0_31 as V0_31
from dpsim.vllm.releases.v0_33 import V0_33 as V0_33
