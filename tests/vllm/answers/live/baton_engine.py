"""Runs vLLM's own `ubatching.py` with a drawn case, on real threads and on streams that log their calls.

`WatchedEvent` counts the threads that wait. If all live threads wait for events that are clear, no thread can set one,
so these threads are deadlocked: they *stand*. Therefore no timeout decides who hangs. The exception `Stands` ends such
a thread.
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
    """Ends a thread that no other thread can release any more."""


class Watch:
    """Counts the live threads and those that wait.

    `living`: the number of live threads: the microbatches, and the main thread until it joins them.
    """

    def __init__(self, log: Log, living: int) -> None:
        self.log, self.living, self.waiting = log, living, 0
        self.changed = threading.Condition()

    def left(self) -> None:
        """A thread calls this when it ends, and the main thread when it will set no further event."""
        with self.changed:
            self.living -= 1
            self.look()

    def look(self) -> None:
        if self.living and self.waiting == self.living:
            self.log.closed = True
            self.changed.notify_all()


class WatchedEvent:
    """Works as `threading.Event`: `set` releases the waiting threads, even if another thread clears the event before
    they run.
    """

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
    """Stands in for torch's streams: a current stream for each thread, and numbered events."""

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
    """Runs one case once, with the file of one release."""

    def __init__(self, release: str, case: Case) -> None:
        self.case, self.log = case, Log()
        self.streams = Streams(self.log)
        self.forward = module("vllm.forward_context", ForwardContext=object, _forward_context=None)
        self.scope = run_file(release, FILE, self.modules())
        self.watch = Watch(self.log, len(case) + 1)
        # From here on, the file's `threading.Event` creates events that count the threads that wait.
        self.scope["threading"] = SimpleNamespace(Event=lambda: WatchedEvent(self.watch), get_ident=threading.get_ident)

    def modules(self) -> dict[str, ModuleType]:
        utils = {"current_stream": self.streams.current}
        logger = module("vllm.logger", init_logger=lambda name: None)
        return {
            "torch": self.streams.torch,
            "vllm": module("vllm", forward_context=self.forward),
            "vllm.forward_context": self.forward,
            "vllm.logger": logger,
            "vllm.utils": module("vllm.utils", **utils),  # release 0.11 imports it from here
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
