"""The table of requests on the device, with a row for each slot, and the kernels that read and write it.

    last_sampled_tokens   int64 (slots,)        the last sampled token, the input of a decode
    total_len             int32 (slots,)        tokens of the request so far
    num_computed_tokens   int32 (slots,)        computed tokens, with drafts until the target model rejects them
    num_settled_tokens    int32 (slots,)        computed tokens that are final: the state of a recurrent layer
    all_token_ids         int32 (slots, width)  all tokens
    draft_tokens          int64 (slots, drafts) what the drafter proposes next

Every stage has a table, and all have to become equal. A *mapping* contains the slot of each row of a batch, or -1 for a
row without a slot.

Sources: specification 6.2 and 6.5.
"""

from __future__ import annotations

from typing import Any

from dpsim.contract.interface import Buffer, Stream
from dpsim.contract.ops import DType
from dpsim.vllm.model.arrays import add, count, hits_of, namespace, of_host
from dpsim.vllm.model.kernels import MODULUS, Span, fill, guessed, layout


def state(stream: Stream, shape: tuple[int, ...], dtype: DType, site: str) -> Buffer:
    """Allocate a buffer of zeros for the whole run."""
    buffer = stream.alloc(shape, dtype, site)
    stream.launch("state.clear", fill, writes=[buffer], args=(0,), cost=0)
    return buffer


class RequestTable:
    """The table of one stage. Only the main stream reads and writes it."""

    def __init__(self, main: Stream, slots: int, width: int, drafts: int) -> None:
        self.main = main
        self.last = state(main, (slots,), "int64", "last_sampled_tokens")
        self.total = state(main, (slots,), "int32", "total_len")
        self.computed = state(main, (slots,), "int32", "num_computed_tokens")
        self.settled = state(main, (slots,), "int32", "num_settled_tokens")
        self.ids = state(main, (slots, width), "int32", "all_token_ids")
        self.drafts = state(main, (slots, max(drafts, 1)), "int64", "draft_tokens")

    def admit(self, slots: tuple[int, ...], known: tuple[tuple[int, ...], ...]) -> None:
        """Assign slots to new requests. `known`: the known tokens of each."""
        table = [self.total, self.computed, self.settled, self.ids]
        self.main.launch("requests.add", admit, writes=table, args=(slots, known))

    def inputs(self, mapping: Buffer, spans: tuple[Span, ...]) -> Buffer:
        """Returns the inputs of a step, int64 (5, tokens); `prepare` describes its rows."""
        inputs = self.main.alloc((5, sum(span.length for span in spans)), "int64", "inputs")
        reads = [self.ids, self.last, self.drafts, self.computed, self.settled, self.total, mapping]
        self.main.launch("inputs.prepare", prepare, reads=reads, writes=[inputs], args=(spans,))
        return inputs

    def advance(self, mapping: Buffer, lengths: tuple[int, ...]) -> None:
        """Count the tokens of all rows as computed, before the stage knows which drafts the target model rejects."""
        self.main.launch("computed.advance", advance, reads=[mapping], writes=[self.computed], args=(lengths,))

    def settle(self, mapping: Buffer) -> None:
        """Make the computed counts of these rows final."""
        self.main.launch("state.settle", settle, reads=[mapping, self.computed], writes=[self.settled])

    def update(
        self, tokens: Buffer, sampled: Buffer, rejected: Buffer, mapping: Buffer, lengths: tuple[int, ...]
    ) -> None:
        """`sampled`, `rejected`: counts, int32 (rows,) or (1, rows). `lengths`: tokens not yet counted as computed."""
        table = [self.last, self.total, self.ids, self.computed, self.settled]
        reads = [tokens, sampled, rejected, mapping]
        self.main.launch("tokens.update", update, reads=reads, writes=table, args=(lengths,))

    def propose(self, mapping: Buffer) -> None:
        """Run the drafter: propose the drafts that follow the tokens just sampled."""
        self.main.launch("drafts.propose", propose, reads=[self.last, mapping], writes=[self.drafts])

    def store_drafts(self, drafts: Buffer, mapping: Buffer) -> None:
        """Store drafts from the last stage, int64 (rows, drafts)."""
        self.main.launch("drafts.store", store, reads=[drafts, mapping], writes=[self.drafts])


# ---- kernels: buffers that are read, buffers that are written, arguments


def admit(
    total: Any, computed: Any, settled: Any, ids: Any, slots: tuple[int, ...], known: tuple[tuple[int, ...], ...]
) -> None:
    """Kernel: write the known tokens of new requests into their slots, and set their computed counts to 0."""
    for slot, tokens in zip(slots, known, strict=True):
        total[slot] = len(tokens)
        computed[slot] = settled[slot] = 0
        ids[slot, : len(tokens)] = of_host(ids, tokens)


def prepare(
    ids: Any,
    last: Any,
    drafts: Any,
    computed: Any,
    settled: Any,
    total: Any,
    mapping: Any,
    inputs: Any,
    spans: tuple[Span, ...],
) -> None:
    """Kernel: write the inputs of a step, int64 (5, tokens).

    Rows: token id, position, length of the request, digest of its tokens, settled count. The model reads two, the
    witness all.
    """
    xp = namespace(mapping)
    rows, offsets, prefilling = (of_host(mapping, values) for values in layout(spans))
    slots = mapping[rows]
    positions = computed[slots] + offsets
    places = count(ids, ids.shape[1])[None, :]
    history = xp.astype(ids[slots], xp.int64)
    prompt = xp.sum(history * xp.astype(places == positions[:, None], xp.int64), axis=1)
    draft = count(ids, drafts.shape[1])[None, :] == offsets[:, None] - 1
    decoded = xp.where(offsets == 0, last[slots], xp.sum(drafts[slots] * xp.astype(draft, xp.int64), axis=1))
    inputs[0] = xp.where(prefilling == 1, prompt, decoded)
    inputs[1] = positions
    inputs[2] = total[slots]
    within = xp.astype(places < total[slots][:, None], xp.int64)
    inputs[3] = xp.sum(history * (places + 1) * within, axis=1) % MODULUS
    inputs[4] = settled[slots]


def advance(mapping: Any, computed: Any, lengths: tuple[int, ...]) -> None:
    """Kernel: count all tokens as computed, before the stage knows which drafts are rejected."""
    add(computed, hits_of(mapping, computed.shape[0]), of_host(mapping, lengths))


def settle(mapping: Any, computed: Any, settled: Any) -> None:
    """Kernel: make the computed counts of these rows final."""
    _settle(hits_of(mapping, computed.shape[0]), computed, settled)


def update(
    tokens: Any,
    of_rows: Any,
    rejected_of_rows: Any,
    mapping: Any,
    last: Any,
    total: Any,
    ids: Any,
    computed: Any,
    settled: Any,
    lengths: tuple[int, ...],
) -> None:
    """Kernel: store sampled tokens. `lengths`: the tokens of each row that do not count as computed yet."""
    xp, hits = namespace(mapping), hits_of(mapping, last.shape[0])
    sampled = xp.sum(hits * xp.reshape(of_rows, (1, -1)), axis=1)
    rejected = xp.sum(hits * xp.reshape(rejected_of_rows, (1, -1)), axis=1)
    places, history = count(ids, ids.shape[1])[None, :], xp.astype(ids, xp.int64)
    latest = last
    for number in range(tokens.shape[1]):
        new = xp.sum(hits * tokens[:, number][None, :], axis=1)
        here = (places == (total + number)[:, None]) & (sampled > number)[:, None]
        history = xp.where(here, new[:, None], history)
        latest = xp.where(sampled == number + 1, new, latest)
    last[:], ids[:] = latest, history
    total[:] = total + sampled
    computed[:] = computed - rejected
    if any(lengths):
        add(computed, hits, of_host(mapping, lengths))
    _settle(hits, computed, settled)


def _settle(hits: Any, computed: Any, settled: Any) -> None:
    xp = namespace(hits)
    settled[:] = xp.where(xp.sum(hits, axis=1) > 0, computed, settled)


def propose(last: Any, mapping: Any, drafts: Any) -> None:
    """Kernel: write drafts into the slots of a step, as they follow the tokens just sampled."""
    xp, hits = namespace(mapping), hits_of(mapping, last.shape[0])
    hit, token = xp.sum(hits, axis=1) > 0, last
    for number in range(drafts.shape[1]):
        token = guessed(token)
        drafts[:, number] = xp.where(hit, token, drafts[:, number])


def gather(state: Any, mapping: Any, rows: Any) -> None:
    """Kernel: copy the rows of a table that belong to the batch's slots, in the order of the batch."""
    rows[:] = state[mapping]


def store(rows: Any, mapping: Any, state: Any) -> None:
    """Kernel: write rows of a batch back into their slots. Rows with slot -1 are left out."""
    xp, hits = namespace(mapping), hits_of(mapping, state.shape[0])
    hit = xp.sum(hits, axis=1) > 0
    for number in range(state.shape[1]):
        new = xp.sum(hits * rows[:, number][None, :], axis=1)
        state[:, number] = xp.where(hit, new, state[:, number])
