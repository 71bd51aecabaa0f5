"""The requests of a workload, from any of its sources.

A list of requests is a pure function of the workload and of its files, on every machine and with
every Python. So the synthetic source uses of `random` only `Random.random()`, the one method whose sequence Python
promises to keep. If the last digit of the C library's logarithm may matter, decimal arithmetic decides: it is the
same everywhere, and takes ten times as long.

    >>> short = Lengths(min=10, max=99)
    >>> [tuple(r)[:3] for r in draw(Synthetic(requests=2, seed=7, rate=20, prompt_tokens=short, output_tokens=short))]
    [(19565742, 23, 68), (23325431, 58, 42)]

Prior art: k6 and locust (arrival rates), Vidur and BLIS (length distributions, trace replay).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from itertools import islice
from pathlib import Path
from random import Random

from dpsim.scenario.errors import FileMissing
from dpsim.vllm.params.arguments import Request
from dpsim.vllm.params.workload.azure_csv import read_azure_csv
from dpsim.vllm.params.workload.model import Lengths, Synthetic, Workload

_EXACT = Context(prec=25)


def requests_of(workload: Workload, base_dir: Path | str | None = None) -> list[Request]:
    """The requests of a workload, in the order of their source; the first `limit` of them.

    `base_dir`: the folder of the scenario file, against which a trace's name is resolved; None: the working folder.

    Raises FileMissing if a trace is not found, ScenarioError if it cannot be read.
    """
    if workload.azure_csv is not None:
        return read_azure_csv(find_file(workload.azure_csv.file, base_dir), workload.limit)
    if workload.synthetic is not None:
        return list(islice(_drawn(workload.synthetic), workload.limit))
    written = (workload.requests or ())[: workload.limit]
    return [Request(*dict(spec).values()) for spec in written]  # the fields of both stand in the same order


MOST_REQUESTS = 1_000
"""Of a workload that a token may bring. Each of these is far above what can be explored."""
MOST_TOKENS = 100_000
"""Of all requests together."""
MOST_WAITED = 100_000
"""Steps of the virtual clock up to the last arrival or abort."""


def extent(workload: Workload) -> dict[str, tuple[int, int]]:
    """How much a workload without a file is, and how much a token may bring: what -> (count, most)."""
    if workload.synthetic is not None:
        made, longest = workload.synthetic, workload.synthetic.prompt_tokens.max + workload.synthetic.output_tokens.max
        count = min(made.requests, workload.limit or made.requests)
        tokens, last = count * longest, int(count / made.rate * 1e9) if made.rate else 0
    else:
        requests = (workload.requests or ())[: workload.limit]
        count, tokens = len(requests), sum(one.prompt_tokens + one.output_tokens for one in requests)
        last = max((max(one.arrival, one.abort or 0) for one in requests), default=0)
    return {
        "requests": (count, MOST_REQUESTS),
        "tokens": (tokens, MOST_TOKENS),
        "steps to the last arrival": (last // workload.step_duration, MOST_WAITED),
    }


def draw(synthetic: Synthetic) -> list[Request]:
    """The requests of a synthetic source, in order of arrival."""
    return list(_drawn(synthetic))


_typed: set[str] = set()


def allow_file(path: str) -> None:
    """Let `find_file` open the file at an absolute path, because the user has typed it."""
    _typed.add(path)


def find_file(name: str, base_dir: Path | str | None) -> Path:
    """A workload's file, below `base_dir` or below $DPSIM_DATA. A scenario of a stranger opens no other file, and
    quotes none in an error. Raises FileMissing that names the folders.
    """
    if name in _typed:
        return Path(name)
    folder = Path(base_dir) if base_dir is not None else Path.cwd()
    data = os.environ.get("DPSIM_DATA")
    for place in (folder, *([Path(data)] if data else [])):
        file = (place / name).resolve()
        if file.is_relative_to(place.resolve()) and file.exists():
            return place / name
    raise FileMissing(
        f"{name}: the workload's file is in none of the folders that dpsim searches, nor in one below them. They are "
        f"(1) that of the scenario file, {folder.resolve()}; "
        f"(2) that of the environment variable DPSIM_DATA, {data or 'which is not set'}"
    )


def _drawn(synthetic: Synthetic) -> Iterator[Request]:
    """Three random numbers a request, whatever their use: a change of the rate does not change the lengths."""
    random = Random(synthetic.seed)
    now = 0
    for _ in range(synthetic.requests):
        gap, prompt, output = random.random(), random.random(), random.random()
        if synthetic.rate is not None:
            now += _exponential(gap, synthetic.rate)
        yield Request(now, _length(prompt, synthetic.prompt_tokens), _length(output, synthetic.output_tokens))


def _exponential(uniform: float, rate: float) -> int:
    """A gap of a Poisson process in ns, from a number in [0, 1)."""
    gap = _whole(-math.log1p(-uniform) * 1e9 / rate, 1e-14)
    if gap is not None:
        return gap
    with localcontext(_EXACT):
        return int(-(1 - Decimal(uniform)).ln() * 10**9 / Decimal(rate))


def _length(uniform: float, lengths: Lengths) -> int:
    """A number of tokens between min and max, from a number in [0, 1)."""
    count = lengths.max - lengths.min + 1
    if lengths.distribution == "uniform":
        return lengths.min + int(uniform * count)
    drawn = _whole(lengths.min * math.exp(math.log((lengths.max + 1) / lengths.min) * uniform), 1e-13)
    if drawn is None:
        with localcontext(_EXACT):
            low, high = Decimal(lengths.min).ln(), Decimal(lengths.max + 1).ln()
            drawn = int((low + (high - low) * Decimal(uniform)).exp())
    return min(max(drawn, lengths.min), lengths.max)


def _whole(number: float, error: float) -> int | None:
    """The whole part of a number that is known up to a relative error; None if it takes more digits. The error
    leaves room for fifty times the inaccuracy of a C library's functions.
    """
    slack = number * error + 1e-9
    least = int(number - slack)
    return least if least == int(number + slack) else None
