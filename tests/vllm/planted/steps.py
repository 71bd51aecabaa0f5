"""Mistakes in the steps of ranks: agreement, captures, microbatches, moves of experts, pipelines."""

from __future__ import annotations

from tests.vllm.planted.mistake import Mistake

DP_BATCH = (
    Mistake(
        "mode-of-rank-0",
        "dp_batch",
        "data_parallel/batch.py",
        "        return RuntimeMode(min(modes))\n",
        "        return RuntimeMode(modes[0])\n",
        "All ranks run in the mode of rank 0, which another rank may have no graph for.",
        "shipped",
    ),
    Mistake(
        "metadata-not-padded",
        "dp_batch",
        "data_parallel/captured.py",
        "return padded(metadata, self.config.max_num_seqs) if mode is RuntimeMode.FULL else metadata",
        "return metadata",
        "A FULL graph finds requests of an earlier step behind those of this one.",
        "shipped",
    ),
    Mistake(
        "rows-by-own-count",
        "dp_batch",
        "data_parallel/layers.py",
        "        own = sum(context.counts[: self.index])\n        hidden = context.stream",
        "        own = num_tokens * self.index\n        hidden = context.stream",
        "A rank takes rows of its neighbour wherever counts differ.",
        "shipped",
    ),
    Mistake(
        "v2-own-uniform",
        "dp_batch",
        "data_parallel/batch_v2.py",
        "            chosen = self.graphs.dispatch(local.num_reqs, max(reduced.tokens), uniform)\n",
        "            chosen = self.graphs.dispatch(local.num_reqs, max(reduced.tokens), local.uniform_token_count)\n",
        "A rank of decodes takes a graph of decodes where another rank has a prompt.",
        "shipped",
    ),
)

CAPTURE = (
    Mistake(
        "registered-at-first-places",
        "dp_batch",
        "capture/registration.py",
        "places = self.table.view(self.registered, len(self.noted))",
        "places = self.table.view(0, new)",
        "A second session writes over the addresses of the first, and its own stay unknown.",
        "shipped",
    ),
    Mistake(
        "session-not-waited-for",
        "dp_batch",
        "capture/session.py",
        "        self.main.wait_stream(self.stream)\n",
        "",
        "The first step writes inputs while the last warm-up still reads them.",
        "shipped",
    ),
    Mistake(
        "copy-before-layer-is-through",
        "dp_batch",
        "capture/offloader.py",
        "        self.copy.wait_stream(stream)\n",
        "",
        "Weights of a later layer come into their place while the layer before reads it.",
        "shipped",
    ),
)

DBO = (
    Mistake(
        "replay-before-weights",
        "dbo",
        "overlap/wrapper.py",
        "        self.model.before(context)\n        entry.graph.replay",
        "        entry.graph.replay",
        "A replay of microbatches does not call sync_prev_onload, and reads weights that are still copied.",
        "shipped",
    ),
    Mistake(
        "network-ahead",
        "dbo",
        "overlap/all_to_all.py",
        "        network.wait_stream(stream)\n",
        "",
        "The network sends tokens that are not permuted yet.",
        "shipped",
    ),
    Mistake(
        "done-before-exchange",
        "dbo",
        "overlap/all_to_all.py",
        "        self.exchange(output, source, to, come, network, site)\n"
        "        self.drop(source, network)\n"
        "        done = network.record()\n",
        "        done = network.record()\n"
        "        self.exchange(output, source, to, come, network, site)\n"
        "        self.drop(source, network)\n",
        "A receive counts as complete before anything has come.",
        "shipped",
    ),
    Mistake(
        "slots-of-the-first",
        "dbo",
        "overlap/forward.py",
        "metadata.slots[own.requests.start : own.requests.stop]",
        "metadata.slots[: own.requests.stop - own.requests.start]",
        "The second microbatch writes into the cache of the requests of the first.",
        "shipped",
    ),
    Mistake(
        "hook-left",
        "dbo",
        "overlap/baton.py",
        "        self.maybe_run_recv_hook()\n        self.let_go()\n        self.wait",
        "        self.let_go()\n        self.wait",
        "A receive that the last microbatch was left is never completed.",
        "shipped",
    ),
)

EPLB = (
    Mistake(
        "eplb-memory-reused",
        "eplb",
        "data_parallel/async_balance.py",
        "        self.incoming.record_stream(self.main)\n",
        "",
        "Harmless: who uses this memory next comes behind `begun`, which the main stream records after it has read it.",
        "nothing",
    ),
    Mistake(
        "eplb-not-joined",
        "eplb",
        "data_parallel/async_balance.py",
        '        await self.thread.join("eplb.join")\n',
        "",
        "At the end a rank takes over experts that its thread has not received yet.",
        "shipped",
    ),
    Mistake(
        "eplb-own-answer",
        "eplb",
        "data_parallel/async_balance.py",
        "        return ready == self.peers.size\n",
        "        return bool(mine[0])\n",
        "Each rank takes over in the step in which its own experts are there.",
        "shipped",
    ),
)

PP_TOKENS = (
    Mistake(
        "receive-over-memory-in-use",
        "pp_tokens",
        "pipeline/transfer.py",
        "            stream.wait_stream(self.main)  # new buffers may reuse memory that the main stream still uses\n",
        "            pass\n",
        "Harmless: the main stream gives such memory back with `record_stream`, and it is handed out after that.",
        "nothing",
    ),
    Mistake(
        "drafts-not-kept",
        "pp_tokens",
        "pipeline/sampled_tokens.py",
        "        self.keep(drafts)\n",
        "",
        "Memory of drafts is given out again while the side stream still sends them.",
        "shipped",
    ),
    Mistake(
        "chunks-not-settled",
        "pp_tokens",
        "pipeline/worker.py",
        "            if not all_needed:\n",
        "            if False:\n",
        "What a stage computed of a chunk never counts as settled.",
        "shipped",
    ),
    Mistake(
        "admitted-in-flight",
        "pp_tokens",
        "pipeline/scheduler.py",
        "            if state.in_flight or not self._fits(state, state.prefill):\n",
        "            if not self._fits(state, state.prefill):\n",
        "A preempted request begins anew while its tokens are under way.",
        "shipped",
    ),
    Mistake(
        "stale-padding",
        "pp_tokens",
        "pipeline/graphs.py",
        "    no_tokens(tokens, positions, slots, dummy_slot)\n    real",
        "    real",
        "Rows that only pad write into slots of an earlier step.",
        "shipped",
    ),
)

STEPS = (*DP_BATCH, *CAPTURE, *DBO, *EPLB, *PP_TOKENS)
