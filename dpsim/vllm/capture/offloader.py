"""Weights that are not all on the device: a rank copies those of a layer while layers before it compute (5.9).

There are a few places for weights, used in turn. When a layer is done with its place, a separate stream copies the
weights of the next layer of that place into it:

    main    layer 0 in place 0   layer 1 in place 1   layer 2 in place 0   layer 3 in place 1
    copy                         layer 2 -> place 0   layer 3 -> place 1   layer 0 -> place 0   layer 1 -> place 1

The last copies are for the first layers of the *next* forward. In a captured forward they are part of the graph, and
three rules follow:

* Before a capture and before a replay the stream waits for all eager copies (`sync_prev_onload`). A graph cannot wait
  for an outer event, and would read weights while the copy stream writes them.
* Within a capture a layer waits for its copy if that is part of the capture, and for nothing else.
* At the end of a capture the stream joins the copies that no layer waited for (`join_after_forward`).

An eager layer waits for the event of its copy. If a capture recorded that event, a stream cannot wait for it. Then the
layer waits for all of the copy stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.interface import Buffer, Event, Rank, Stream


class Copied(NamedTuple):
    """The copy of a layer's weights: its event, and whether a capture recorded it."""

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
        self.unwaited: set[int] = set()  # layers whose copy is captured, and not awaited yet
        for layer in range(places):
            self.start(layer, main, capturing=False)

    def weights(self, layer: int) -> Buffer:
        return self.places[layer % len(self.places)]

    def start(self, layer: int, stream: Stream, capturing: bool) -> None:
        """Copy a layer's weights into its place, as soon as `stream` is done with it."""
        self.copy.wait_stream(stream)
        self.copy.launch("weights.copy", load, writes=[self.weights(layer)], args=(layer,))
        self.copied[layer] = Copied(self.copy.record(), capturing)
        if capturing:
            self.unwaited.add(layer)

    def before_layer(self, layer: int, stream: Stream, capturing: bool) -> None:
        """Wait for the layer's weights."""
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
        """Copy the next layer's weights into this layer's place, which is free now."""
        self.start((layer + len(self.places)) % self.layers, stream, capturing)

    def sync_prev_onload(self, stream: Stream) -> None:
        """Wait for all copies so far."""
        stream.wait_stream(self.copy)

    def join_after_forward(self, stream: Stream) -> None:
        """Join the copies that a capture made and did not wait for."""
        for layer in sorted(self.unwaited):
            stream.wait(self.copied[layer].event)
        self.unwaited.clear()


def load(place: Any, layer: int) -> None:
    """Kernel: write the weights of a layer."""
    place[:] = layer + 1
