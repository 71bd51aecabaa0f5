"""`python -m tests.vllm.reports`: write the twelve reports again."""

from __future__ import annotations

from tests.vllm.reports.kinds import KINDS, file_of, report_of

for kind in KINDS:
    file_of(kind).write_text(report_of(kind))
