"""Clients on several devices, which all work at the same time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from queue import SimpleQueue
from threading import Event, Thread
from typing import TypeVar

import torch
from torch import Tensor, nn

from potluck.client import Client
from potluck.contract import Round
from potluck.engines.base import Engine, Job, Outcome, Setting
from potluck.engines.precision import Precision
from potluck.metrics.accuracy import Evaluation

T = TypeVar("T")
_EVALUATED = 64
"""So many clients of each device are evaluated at once, for what they hold is read before."""


class Spread(Engine):
    """An engine on each of several devices. A client always runs on the same one, where its networks may still be.

    Args:
        setting: What the clients have in common; its device is the first one.
        devices: Where to run.
        kind: Makes the engine of a device.
    """

    def __init__(self, setting: Setting, devices: Sequence[torch.device], kind: type[Engine]) -> None:
        super().__init__(setting)
        self.name = kind.name
        self._engines = [kind(_on(setting, device)) for device in devices]
        self._moved: list[dict[int, Tensor]] = [{} for _ in devices]
        self._members: dict[int, Client] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the engines have to say, once."""
        return tuple(dict.fromkeys(note for engine in self._engines for note in engine.notes))

    def prepare(self, round: Round, jobs: Iterable[Job]) -> None:
        """Find out about clients like these."""
        for number, part in enumerate(self._dealt(jobs)):
            self._engines[number].prepare(round, part)

    def train(self, round: Round, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        """Train the clients of a cohort; outcomes come as they are ready."""
        return self._together(lambda engine, part: engine.train(round, part), jobs)

    def evaluate(self, jobs: Iterable[Job]) -> Generator[Evaluation, None, None]:
        """Evaluate clients with what they hold."""
        waiting = iter(jobs)
        while some := list(islice(waiting, _EVALUATED * len(self._engines))):
            yield from self._together(lambda engine, part: engine.evaluate(part), some)

    def networks(self, job: Job) -> dict[str, nn.Module]:
        """Copies of the networks that one client holds."""
        return self._engines[self._place(job)].networks(self._here(job))

    def predict(self, job: Job, x: Tensor) -> Tensor:
        """Logits of one client for inputs like its own."""
        return self._engines[self._place(job)].predict(self._here(job), x)

    # ---- who goes where -------------------------------------------------------------------------------------------

    def _place(self, job: Job) -> int:
        return job.client.id % len(self._engines)

    def _here(self, job: Job) -> Job:
        """A client's work, with its data where it runs; what it holds is read now, by this thread."""
        client, place = job.client, self._place(job)
        if client.id not in self._members:
            device, moved = self._engines[place].setting.device, self._moved[place]
            member = client.numbered(client.id)
            for name in ("train", "validation", "test", "holdout"):
                setattr(member, name, getattr(client, name).to(device, moved))
            self._members[client.id] = member
        return replace(job.read(), client=self._members[client.id])

    def _dealt(self, jobs: Iterable[Job]) -> list[list[Job]]:
        parts: list[list[Job]] = [[] for _ in self._engines]
        for job in jobs:
            parts[self._place(job)].append(self._here(job))
        return parts

    # ---- all at the same time -------------------------------------------------------------------------------------

    def _together(
        self, work: Callable[[Engine, list[Job]], Generator[T, None, None]], jobs: Iterable[Job]
    ) -> Generator[T, None, None]:
        """What the engines give, in the order in which it is ready; the first error ends all of them."""
        ready: SimpleQueue[T | BaseException | None] = SimpleQueue()
        stopped = Event()

        def run(engine: Engine, part: list[Job]) -> None:
            try:
                with closing(work(engine, part)) as results:
                    for result in _until(stopped, results):
                        ready.put(result)
                ready.put(None)
            except BaseException as error:  # whatever it is, it is raised by whoever listens
                ready.put(error)

        dealt = [(engine, part) for engine, part in zip(self._engines, self._dealt(jobs), strict=True) if part]
        threads = [Thread(target=run, args=each, daemon=True) for each in dealt]
        # Switches that are the same for all threads are set once, around them.
        with self.setting.precision.working():
            try:
                for thread in threads:
                    thread.start()
                left = len(threads)
                while left:
                    result = ready.get()
                    if isinstance(result, BaseException):
                        raise result
                    if result is None:
                        left -= 1
                    else:
                        yield result
            finally:
                stopped.set()
                for thread in threads:
                    thread.join()


def _until(stopped: Event, results: Iterator[T]) -> Iterator[T]:
    for result in results:
        if stopped.is_set():
            return
        yield result


def _on(setting: Setting, device: torch.device) -> Setting:
    """The same setting on another device."""
    public = None if setting.public is None else setting.public.to(device)
    return replace(setting, device=device, precision=Precision(setting.precision.name, device), public=public)
