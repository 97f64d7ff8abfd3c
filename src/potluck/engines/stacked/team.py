"""Clients of one architecture that step together: what they hold and received, and how well they predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from potluck.algorithms.uploads import State
from potluck.contract import Phase, Received
from potluck.data.examples import Examples
from potluck.engines.base import Job, Setting
from potluck.engines.batches import EVALUATION_BATCH
from potluck.engines.demands import data_of
from potluck.engines.memory import weights_in
from potluck.engines.stacked.cache import Cache
from potluck.engines.stacked.evaluate import Reader
from potluck.engines.stacked.resident import Resident
from potluck.engines.stacked.stack import Stack
from potluck.engines.stacked.track import Track
from potluck.engines.stacked.transfer import fetched
from potluck.engines.workshop import Workshop
from potluck.metrics.accuracy import Evaluation, scores


class Team:
    """Clients that step together.

    Args:
        resident: What there is on the device for their architecture.
        workshop: Gives initial weights, and costs.
        cache: Gives states that are on the device already.
        jobs: The clients' work; those with the most samples come first, so that who is done can be left out.
        received: What each of them received.
        room: How many clients there is room for; it may be more than there are.
    """

    def __init__(
        self, resident: Resident, workshop: Workshop, cache: Cache, jobs: Sequence[Job], received: Sequence[Received],
        room: int,
    ) -> None:  # fmt: skip
        self.resident, self.workshop, self.cache = resident, workshop, cache
        self.jobs, self.received, self.room = jobs, received, room
        self.clients = [job.client for job in jobs]

    @property
    def setting(self) -> Setting:
        """What all clients have in common."""
        return self.resident.setting

    @property
    def track(self) -> Track:
        """Where the clients step."""
        return self.resident.track(self.room)

    @property
    def stack(self) -> Stack:
        """Where their weights are."""
        return self.track.stack

    def load(self, shared: Sequence[str]) -> None:
        """Put what the clients hold on the device, and what they received, also as weights of ``shared`` networks."""
        self.stack.load([self._held(job) for job in self.jobs])
        self.stack.receive(self.received, shared)

    def _held(self, job: Job) -> State | Tensor:
        held = job.held()
        if held is None:
            return self.workshop.initial(job.client.architecture)
        kept = self.cache.get(job.client.id, held)
        return weights_in(held) if kept is None else kept

    def data(self, name: str) -> list[Examples]:
        """The data called ``name`` of each client; where they are missing, the first client by number is named."""
        found = {c.id: data_of(self.setting, c, name) for c in sorted(self.clients, key=lambda client: client.id)}
        return [found[client.id] for client in self.clients]

    def batches(self, phase: Phase, data: Sequence[Examples]) -> list[list[int]]:
        """How an epoch of each client is cut."""
        return [self.workshop.batch_sizes(self.resident.net, phase, len(examples)) for examples in data]

    def is_lonely(self, phases: Sequence[Phase], collects: str | None) -> bool:
        """Whether a batch of one sample is to come where batch norm takes two."""
        learned = [phase for number, phase in enumerate(phases) if self.resident.takes_two(number, phase)]
        if any(1 in sizes for phase in learned for sizes in self.batches(phase, self.data(phase.data))):
            return True
        if not self.resident.reading_takes_two:
            return False
        read = [getattr(client, name) for client in self.clients for name in ("test", "validation")]
        read += [] if collects is None else self.data(collects)
        return any(len(data) % EVALUATION_BATCH == 1 for data in read)

    # ---- reading --------------------------------------------------------------------------------------------------

    def collect(self, name: str) -> dict[str, Tensor]:
        """The sum of the algorithm's statistic over the data called ``name`` of each client."""
        data = self.data(name)
        return self._reader().collected(self.track.pools.of(name, data), [len(examples) for examples in data])

    def judge(self) -> dict[str, Tensor]:
        """Tallies of each client's predictions, for those data that any of them has."""
        found = {}
        for name in ("test", "validation"):
            data: list[Examples] = [getattr(client, name) for client in self.clients]
            samples = [len(examples) for examples in data]
            if any(samples):
                found[name] = self._reader().tallies(self.track.pools.of(name, data), samples)
        return found

    def _reader(self) -> Reader:
        return Reader(self.track, self.setting)

    def evaluation(self, judged: Mapping[str, Tensor], number: int) -> Evaluation:
        """The scores of one client."""
        each = [scores(judged[name][number]) if name in judged else None for name in ("test", "validation")]
        return Evaluation(self.clients[number].id, *each)

    def evaluations(self) -> Iterator[Evaluation]:
        """How well the clients predict with what they hold."""
        self.load(())
        judged = fetched(self.judge())
        for number in range(len(self.jobs)):
            yield self.evaluation(judged, number)
