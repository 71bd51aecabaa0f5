"""The engine's own `ubatching.py` runs a drawn case: real threads, and streams that note what they get.

Each wait for an event of a thread counts. When all threads that live wait for events which are clear, no thread can
ever set one: these threads *stand*. So no clock decides who hangs. A thread that stands is released by `Stands`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.vllm.answers.live.baton_cases import CALLS, Case, Drawn, Log, Noted
from tests.vllm.answers.live.engine_files import module, run_file

FILE = "vllm/v1/worker/ubatching.py"


class Stands(BaseException):
    """No thread can release this one any more."""


class Watch:
    """Which threads live, and how many of them wait. `living`: the microbatches, and the main thread until it joins."""

    def __init__(self, log: Log, living: int) -> None:
        self.log, self.living, self.waiting = log, living, 0
        self.changed = threading.Condition()

    def left(self) -> None:
        """A thread ends, or sets no event from now on."""
        with self.changed:
            self.living -= 1
            self.look()

    def look(self) -> None:
        if self.living and self.waiting == self.living:
            self.log.closed = True
            self.changed.notify_all()


class WatchedEvent:
    """As `threading.Event`: a set releases the threads that wait, even if the event is cleared before they go on."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.flag, self.sets = watch, False, 0
        self.waiters = 0

    def is_set(self) -> bool:
        return self.flag

    def set(self) -> None:
        with self.watch.changed:
            self.flag, self.sets = True, self.sets + 1
            self.watch.waiting -= self.waiters
            self.waiters = 0
            self.watch.changed.notify_all()

    def clear(self) -> None:
        with self.watch.changed:
            self.flag = False

    def wait(self) -> None:
        with self.watch.changed:
            if not self.flag and not self.watch.log.closed:
                sets = self.sets
                self.waiters += 1
                self.watch.waiting += 1
                self.watch.look()
                self.watch.changed.wait_for(lambda: self.sets != sets or self.watch.log.closed)
            if self.watch.log.closed:
                raise Stands


class Streams:
    """The stand-in of torch: a current stream for each thread, and events with numbers."""

    def __init__(self, log: Log) -> None:
        self.log, self.of_thread = log, threading.local()
        streams = self

        class Stream:
            def __init__(self, name: str) -> None:
                self.name = name

            def wait_event(self, event: Event) -> None:
                log.note("wait", self.name, event.number)

        class Event:
            number = 0

            def record(self, stream: Stream) -> None:
                self.number = log.event(stream.name)

        @contextmanager
        def stream(one: Stream) -> Iterator[None]:
            before = streams.current()
            streams.put(one)
            yield
            streams.put(before)

        cuda = SimpleNamespace(Stream=Stream, Event=Event, set_stream=self.put, stream=stream)
        self.torch = module("torch", cuda=cuda, Event=Event)
        self.compute, self.comm = Stream("compute"), Stream("comm")

    def put(self, stream: Any) -> None:
        self.of_thread.stream = stream

    def current(self) -> Any:
        return getattr(self.of_thread, "stream", self.compute)


class Engine:
    """One run of one case."""

    def __init__(self, release: str, case: Case) -> None:
        self.case, self.log = case, Log()
        self.streams = Streams(self.log)
        self.forward = module("vllm.forward_context", ForwardContext=object, _forward_context=None)
        self.scope = run_file(release, FILE, self.modules())
        self.watch = Watch(self.log, len(case) + 1)
        # What the file calls of `threading` from now on: events that count who waits.
        self.scope["threading"] = SimpleNamespace(Event=lambda: WatchedEvent(self.watch), get_ident=threading.get_ident)

    def modules(self) -> dict[str, ModuleType]:
        utils = {"current_stream": self.streams.current}
        logger = module("vllm.logger", init_logger=lambda name: None)
        return {
            "torch": self.streams.torch,
            "vllm": module("vllm", forward_context=self.forward),
            "vllm.forward_context": self.forward,
            "vllm.logger": logger,
            "vllm.utils": module("vllm.utils", **utils),  # where 0.11 has it
            "vllm.utils.torch_utils": module("vllm.utils.torch_utils", **utils),
        }

    def run(self) -> Noted:
        number, (compute, comm) = len(self.case), (self.streams.compute, self.streams.comm)
        barrier = threading.Barrier(number + 1)
        contexts = self.scope["make_ubatch_contexts"](number, compute, comm, list(range(number)), barrier)
        threads = [threading.Thread(target=self.thread, args=(one,), daemon=True) for one in contexts]
        for thread in threads:
            thread.start()
        barrier.wait()
        contexts[0].cpu_wait_event.set()
        self.watch.left()
        for thread in threads:
            thread.join()
        return self.log.noted(number)

    def thread(self, context: Any) -> None:
        try:
            with context:
                self.note(context.id, "enter")
                for word in self.case[context.id]:
                    self.do(word, context.id)
                    self.note(context.id, word)
        except Stands:
            pass
        except Exception as error:
            self.log.end(context.id, error)
        else:
            self.log.end(context.id, None)
        finally:
            self.watch.left()

    def note(self, number: int, word: str) -> None:
        running = self.scope["dbo_current_ubatch_id"]()
        self.log.note(number, word, self.streams.current().name, self.forward._forward_context, running)

    def do(self, word: str, number: int) -> None:
        if word in CALLS:
            self.scope[f"dbo_{CALLS[word]}"]()
        elif word == "raise":
            raise Drawn
        elif word == "previous":
            self.scope["dbo_get_previous_event"](lambda: self.log.event(self.streams.current().name))
        else:
            self.scope["dbo_register_recv_hook"](self.log.hook(word, number, self.scope["dbo_switch_to_comm"]))
