"""An offloader: it keeps weights in host memory, and copies those of a layer to the device just before the layer needs
them.

The device has room for the weights of a few layers, in *places* that layers use in turn:

    main    layer 0 in place 0   layer 1 in place 1   layer 2 in place 0   layer 3 in place 1
    copy                         layer 2 -> place 0   layer 3 -> place 1   layer 0 -> place 0   layer 1 -> place 1

The last copies of a forward bring the weights of the first layers of the *next* forward. A captured forward contains
its copies, so three rules follow (specification 5.9):

* Before a capture and before a replay, the stream waits for all eager copies (`sync_prev_onload`). A graph cannot wait
  for an event recorded outside of it, so it would read weights while the copy stream writes them.
* In a capture, a layer waits for the copy of its weights only if the capture contains this copy.
* At the end of a capture, the stream waits for the copies for which no layer waited (`join_after_forward`).

An eager layer waits for the event of its copy. If a capture recorded this event, no stream can wait for it, so the
layer waits for the whole copy stream.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpsim.contract.interface import Buffer, Event, Rank, Stream


class Copied(NamedTuple):
    """The copy of a layer's weights: its event, and whether a capture recorded it."""

    event: Event
    captured: bool


class Offloader:
    """The weights of one rank's layers: layer l has l + 1. AssertionError unless `places` divides `layers`."""

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
        """Start to copy a layer's weights into its place, after the work enqueued on `stream` so far."""
        self.copy.wait_stream(stream)
        self.copy.launch("weights.copy", load, writes=[self.weights(layer)], args=(layer,))
        self.copied[layer] = Copied(self.copy.record(), capturing)
        if capturing:
            self.unwaited.add(layer)

    def before_layer(self, layer: int, stream: Stream, capturing: bool) -> None:
        """Make `stream` wait for the copy of the layer's weights."""
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
        """The layer has used its place: start to copy the weights of the place's next layer into it."""
        self.start((layer + len(self.places)) % self.layers, stream, capturing)

    def sync_prev_onload(self, stream: Stream) -> None:
        """Make `stream` wait for all copies so far."""
        stream.wait_stream(self.copy)

    def join_after_forward(self, stream: Stream) -> None:
        """Make `stream` wait for the copies in this capture for which no layer waited."""
        for layer in sorted(self.unwaited):
            stream.wait(self.copied[layer].event)
        self.unwaited.clear()


def load(place: Any, layer: int) -> None:
    """Kernel: write the weights of a layer."""
    place[:] = layer + 1
