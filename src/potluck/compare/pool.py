"""Worker processes, each with its share of the machine, that take one run after another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from threading import Thread
from typing import Any, cast

import torch

from potluck.compare.places import Place
from potluck.compare.working import Outcome, Stop, Tell, run_place
from potluck.errors import DataWarning


class Pool:
    """Worker processes.

    Args:
        jobs: How many.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._threads = max(torch.get_num_threads() // jobs, 1)
        self._spawn = multiprocessing.get_context("spawn")
        self._number = 0

    def __call__(self, places: Sequence[Place], tell: Tell, stop: Stop, outcomes: dict[Place, Outcome]) -> None:
        """Carry out runs, and write down how each ended."""
        waiting = deque(places)
        running: dict[Connection, tuple[SpawnProcess, Place]] = {}
        idle: list[tuple[Connection, SpawnProcess]] = []
        told = False
        try:
            while running or (waiting and not stop.asked):
                while waiting and not stop.asked and len(running) < self._jobs:
                    place = waiting.popleft()
                    connection, process = idle.pop() if idle else self._start(place.cell.config.device)
                    running[connection] = (process, place)
                    with suppress(OSError):  # one that has died is noticed below
                        connection.send(place)
                if stop.asked and not told:
                    told = True
                    for process, _ in running.values():
                        process.terminate()  # which a worker takes for a wish to stop
                for ready in wait(list(running), timeout=0.2):
                    connection = cast(Connection, ready)
                    process, place = running[connection]
                    event = _receive(connection, process, stop)
                    if event["event"] == "end":
                        outcomes[place] = Outcome(event["verdict"], event["text"])
                        del running[connection]
                        if process.is_alive():
                            idle.append((connection, process))
                    tell(place, event)
        finally:
            for connection, process in (*idle, *((c, p) for c, (p, _) in running.items())):
                with suppress(OSError):
                    connection.send(None)
                if sys.exc_info()[0] is not None:
                    process.kill()
                process.join()
                connection.close()

    def _start(self, device: str) -> tuple[Connection, SpawnProcess]:
        ours, theirs = self._spawn.Pipe()
        gpu = _gpu(self._number) if device in ("auto", "cuda") else None
        process = self._spawn.Process(target=_work, args=(theirs, self._threads, gpu), daemon=True)
        self._number += 1
        process.start()
        theirs.close()
        return ours, process


def _receive(connection: Connection, process: SpawnProcess, stop: Stop) -> dict[str, Any]:
    try:
        event: dict[str, Any] = connection.recv()
    except (EOFError, OSError):
        process.join()
        if stop.asked:
            return {"event": "end", "verdict": "stopped", "text": ""}
        text = (
            f"its process ended unexpectedly (exit code {process.exitcode}); perhaps memory ran out. Try fewer --jobs."
        )
        return {"event": "end", "verdict": "failed", "text": text}
    return event


def _gpu(number: int) -> str | None:
    """One of several GPUs, in turn, to be the only one that a worker sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    count = torch.cuda.device_count()
    names = visible.split(",") if visible else [str(index) for index in range(count)]
    return names[number % len(names)] if len(names) > 1 else None


# ---- in a worker process ----------------------------------------------------------------------------------------


def _work(connection: Connection, threads: int, gpu: str | None) -> None:
    """Take cells and run them until there are no more."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    stop = Stop()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    signal.signal(signal.SIGTERM, lambda *_: Thread(target=stop.ask).start())  # it may wait for a lock
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore", DataWarning)  # the process that began this one has said them
    while not stop.asked and (place := connection.recv()) is not None:
        outcome = run_place(place, lambda _place, event: connection.send(event), stop)
        connection.send({"event": "end", **outcome._asdict()})


def _end_with_parent() -> None:
    """A comparison that is killed must not go on in its workers, which would keep the runs from the next one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
