"""Makes the list of requests of a workload: from the scenario file, from a seed, or from a trace.

The list depends only on the workload and on its files, on every machine and with every version of Python. So the
synthetic source uses only `Random.random()` of the module `random`, whose sequence Python promises to keep. The
logarithm of the C library may differ in its last digit between machines. Where this digit may matter, the synthetic
source uses decimal arithmetic, which is equal everywhere but takes ten times as long.

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
    """The first `limit`, in the order of their source. `base_dir`: the scenario's folder; None: the working folder.

    Raises FileMissing without the trace, and ScenarioError if it cannot be read.
    """
    if workload.azure_csv is not None:
        return read_azure_csv(find_file(workload.azure_csv.file, base_dir), workload.limit)
    if workload.synthetic is not None:
        return list(islice(_drawn(workload.synthetic), workload.limit))
    written = (workload.requests or ())[: workload.limit]
    return [Request(*dict(spec).values()) for spec in written]  # both classes list their fields in the same order


MOST_REQUESTS = 1_000
"""The largest number of requests of a workload in a token, which a stranger may send; no search handles as many."""
MOST_TOKENS = 100_000
"""The largest number of tokens of all requests of such a workload together."""
MOST_WAITED = 100_000
"""The largest number of steps of the virtual clock up to the last arrival or abort of such a workload."""


def extent(workload: Workload) -> dict[str, tuple[int, int]]:
    """Returns the size of a workload without a file: for each quantity, its count and the largest count in a token."""
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
    """Returns the requests of a synthetic source, in order of arrival."""
    return list(_drawn(synthetic))


_typed: set[str] = set()


def allow_file(path: str) -> None:
    """Allows `find_file` to open the file at an absolute path, because the user typed this path."""
    _typed.add(path)


def find_file(name: str, base_dir: Path | str | None) -> Path:
    """The path of a workload's file, below `base_dir` or $DPSIM_DATA. FileMissing names the searched folders.

    dpsim opens no other file for a scenario from a stranger, and quotes none in an error.
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
    """Yields the requests. Each takes three random numbers in every case, so a change of the rate changes no length."""
    random = Random(synthetic.seed)
    now = 0
    for _ in range(synthetic.requests):
        gap, prompt, output = random.random(), random.random(), random.random()
        if synthetic.rate is not None:
            now += _exponential(gap, synthetic.rate)
        yield Request(now, _length(prompt, synthetic.prompt_tokens), _length(output, synthetic.output_tokens))


def _exponential(uniform: float, rate: float) -> int:
    """Returns a gap of a Poisson process in ns, from a number in [0, 1)."""
    gap = _whole(-math.log1p(-uniform) * 1e9 / rate, 1e-14)
    if gap is not None:
        return gap
    with localcontext(_EXACT):
        return int(-(1 - Decimal(uniform)).ln() * 10**9 / Decimal(rate))


def _length(uniform: float, lengths: Lengths) -> int:
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
    """None if the integer part needs more precision. `error` (relative) leaves fifty times the inaccuracy of a C
    library.
    """
    slack = number * error + 1e-9
    least = int(number - slack)
    return least if least == int(number + slack) else None
