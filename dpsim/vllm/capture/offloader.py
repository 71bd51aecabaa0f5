"""Weights that are not all on the device: each layer's are copied there while layers before it compute (5.9).

There are a few places for weights, used in turn. When a layer is through with its place, the weights of the layer that
has the place next are copied into it, on a stream of their own:

    main    layer 0 in place 0   layer 1 in place 1   layer 2 in place 0   layer 3 in place 1
    copy                         layer 2 -> place 0   layer 3 -> place 1   layer 0 -> place 0   layer 1 -> place 1

The last copies are for the first layers of the *next* forward. Where a forward is captured they are part of the graph,
and three rules follow:

* before a capture and before a replay the stream waits for what was copied eagerly (`sync_prev_onload`): a graph cannot
  wait for an event from outside, and would read what is still being written;
* within a capture a layer waits for its copy if that is part of the capture, and for nothing else;
* at the end of a capture the copies that nobody waited for are joined (`join_after_forward`).

An eager layer waits for the event of its copy. If that was recorded in a capture, it is no event that one could wait
for, and the layer waits for all of the copy stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.interface import Buffer, Event, Rank, Stream


class Copied(NamedTuple):
    """Where the copy of a layer's weights is through."""

    event: Event
    captured: bool


class Offloader:
    """The weights of one rank's layers, a number each: layer l has l + 1. `places` divides `layers`."""

    def __init__(self, rank: Rank, layers: int, places: int) -> None:
        assert layers % places == 0, f"{layers} layers do not go round in {places} places"
        self.layers = layers
        self.copy = rank.stream("copy")
        main = rank.stream("main")
        self.places = [main.alloc(1, "int32", "weights") for _ in range(places)]
        self.copied: dict[int, Copied] = {}
        self.unwaited: set[int] = set()  # layers whose copy is part of the capture under way, and nobody waited for it
        for layer in range(places):
            self.start(layer, main, capturing=False)

    def weights(self, layer: int) -> Buffer:
        return self.places[layer % len(self.places)]

    def start(self, layer: int, stream: Stream, capturing: bool) -> None:
        """Copy a layer's weights into its place, as soon as `stream` is through with it."""
        self.copy.wait_stream(stream)
        self.copy.launch("weights.copy", load, writes=[self.weights(layer)], args=(layer,))
        self.copied[layer] = Copied(self.copy.record(), capturing)
        if capturing:
            self.unwaited.add(layer)

    def before_layer(self, layer: int, stream: Stream, capturing: bool) -> None:
        """The layer's weights are there."""
        copied = self.copied[layer]
        if capturing:
            if copied.captured and layer in self.unwaited:
                stream.wait(copied.event)
                self.unwaited.discard(layer)
        elif copied.captured:
            stream.wait_stream(self.copy)
        else:
            stream.wait(copied.event)

    def after_layer(self, layer: int, stream: Stream, capturing: bool) -> None:
        """The layer's place is free: copy what comes there next."""
        self.start((layer + len(self.places)) % self.layers, stream, capturing)

    def sync_prev_onload(self, stream: Stream) -> None:
        """What was copied so far is there."""
        stream.wait_stream(self.copy)

    def join_after_forward(self, stream: Stream) -> None:
        """The copies that a capture made and did not wait for."""
        for layer in sorted(self.unwaited):
            stream.wait(self.copied[layer].event)
        self.unwaited.clear()


def load(place: Any, layer: int) -> None:
    """Kernel: the weights of a layer."""
    place[:] = layer + 1
