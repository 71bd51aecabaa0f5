"""Compared: names the step of a batch in an error, and the step in which the rank raises the error.

With asynchronous scheduling or a pipeline, a rank compares a batch in a later step, which the report names, too.
"""

from __future__ import annotations


def step_text(step: int, now: int) -> str:
    """Returns the step of a batch in words. `now`: the step in which the rank compares the results of the batch.

    >>> step_text(5, 5), step_text(5, 6)
    ('step 5', 'step 5 (compared in step 6)')
    """
    return f"step {step}" + f" (compared in step {now})" * (step != now)
