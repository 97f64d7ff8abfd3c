"""The reference engine: plain PyTorch, every client by itself; on a CPU, one client per core side by side."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

import torch
from torch import Tensor, nn

from potluck.contract import Round
from potluck.engines.base import Engine, Job, Outcome, Setting
from potluck.engines.threads import threads
from potluck.engines.worker import Worker
from potluck.metrics.accuracy import Evaluation
from potluck.metrics.flops import Cost

T = TypeVar("T")


class Loop(Engine):
    """Trains every client by itself. Every other engine is tested against this one.

    On a CPU, small networks leave most of several cores idle: clients run side by side instead, each in a thread with
    its own networks and its share of the cores. Results do not depend on which thread a client meets.

    Args:
        setting: What the clients have in common.
        workers: How many clients run side by side; by default one per core on a CPU, one on a GPU.
    """

    name = "loop"

    def __init__(self, setting: Setting, workers: int | None = None) -> None:
        super().__init__(setting)
        self._cores = torch.get_num_threads()
        self._most = workers or (self._cores if setting.device.type == "cpu" else 1)
        self._costs: dict[object, Cost] = {}
        self._workers = [Worker(setting, self._costs)]
        self._flops: dict[str, float] = {}  # per sample, by architecture
        # Whoever watches a round may ask for a prediction while all other workers are busy.
        self._reader, self._reading = Worker(setting), Lock()

    def train(self, round: Round, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        """Train the clients of a cohort; side by side, those with the most to do come first."""
        workers = min(self._most, len(jobs))
        if workers > 1:
            # Else the longest might begin last, and all other cores would wait for it.
            jobs = sorted(jobs, key=self._expected, reverse=True)
        with closing(self._each(lambda worker, job: worker.train(round, job), jobs, workers)) as outcomes:
            for job, outcome in zip(jobs, outcomes, strict=True):
                self._flops[job.client.architecture.key] = outcome.flops / max(len(job.client.train), 1)
                yield outcome

    def evaluate(self, jobs: Iterable[Job]) -> Generator[Evaluation, None, None]:
        """Evaluate clients with what they hold; in the order of the jobs."""
        return self._each(lambda worker, job: worker.evaluate(job), jobs, self._most)

    def networks(self, job: Job) -> dict[str, nn.Module]:
        """Copies of the networks that one client holds, ready for use."""
        with self._reading:
            return self._reader.networks(job)

    def predict(self, job: Job, x: Tensor) -> Tensor:
        """Logits of one client for inputs like its own."""
        with self._reading:
            return self._reader.predict(job, x)

    def _expected(self, job: Job) -> float:
        """How much there is to do for a client; as long as nothing is known of its architecture, the most."""
        known = self._flops.get(job.client.architecture.key)
        return math.inf if known is None else known * len(job.client.train)

    def _each(self, work: Callable[[Worker, Job], T], jobs: Iterable[Job], workers: int) -> Generator[T, None, None]:
        if workers <= 1:
            for job in jobs:
                yield work(self._workers[0], job)
            return
        each = max(self._cores // workers, 1)
        idle: SimpleQueue[Worker] = SimpleQueue()
        while len(self._workers) < workers:
            self._workers.append(Worker(self.setting, self._costs))
        for worker in self._workers[:workers]:
            idle.put(worker)

        def task(job: Job) -> T:
            worker = idle.get()
            try:
                return work(worker, job)
            finally:
                idle.put(worker)

        with (
            threads(each),
            ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(each,)) as pool,
        ):
            waiting: deque[Future[T]] = deque()
            try:
                for job in jobs:
                    # States are read here, by one thread, and no more of them than are about to be used.
                    waiting.append(pool.submit(task, job.read()))
                    if len(waiting) > workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
