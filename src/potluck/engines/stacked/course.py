"""A team's way through a round."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from potluck.algorithms.admission import sent_by
from potluck.algorithms.hooks import calling, given, phases_of
from potluck.algorithms.uploads import State
from potluck.contract import Phase, Round
from potluck.engines.base import Outcome
from potluck.engines.demands import loss_of_round, require_finite
from potluck.engines.memory import remembering
from potluck.engines.stacked.team import Team
from potluck.engines.stacked.timetable import Timetable
from potluck.engines.stacked.transfer import Arriving, fetching
from potluck.metrics.counter import Counter
from potluck.payload import Payload


class Course:
    """The local training of a team in one round.

    Args:
        team: Who trains.
        round: The round.
        timetable: What the team does in each phase.
        rounded: To which number of clients a number that is still at work is rounded up.
    """

    def __init__(self, team: Team, round: Round, timetable: Timetable, rounded: Callable[[int], int]) -> None:
        self.team, self.round, self._timetable, self._rounded = team, round, timetable, rounded
        self._adapting = 0
        self._learned: list[list[int]] = []
        self._found: dict[str, dict[str, Tensor]] = {}
        self._flops = [0] * len(team.jobs)
        self._arriving = Arriving({}, None)
        self._states: Iterator[State] = iter(())

    @property
    def bytes(self) -> int:
        """Size of what the clients hold."""
        return len(self.team.jobs) * self.team.resident.template.bytes

    def steps(self) -> Iterator[None]:
        """Train, one step after another; nothing waits for the device."""
        team, algorithm = self.team, self.team.setting.algorithm
        team.load(algorithm.shared)
        adapting, phases = phases_of(algorithm, self.round)
        self._adapting = len(adapting)
        for number, phase in enumerate((*adapting, *phases)):
            yield from self._phase(number, phase)
        if algorithm.collects is not None:
            self._found["sum"] = team.collect(algorithm.collects)
            samples = [len(data) for data in team.data(algorithm.collects)]
            for place, client in enumerate(team.clients):
                self._flops[place] += team.workshop.collecting_flops(
                    client.architecture, team.received[place], samples[place]
                )
        self._found["judged"] = team.judge()
        self._found["finite"] = {"": self._finite()}
        yield

    def _phase(self, number: int, phase: Phase) -> Iterator[None]:
        team, setting, resident = self.team, self.team.setting, self.team.resident
        plan, schedule = self._timetable.of(team, number, phase)
        factor = setting.training.learning_rate_factor(self.round.number, self.round.total)
        total = torch.zeros(team.room, dtype=torch.float64, device=setting.device)
        if any(plan.steps):
            pool = team.track.pools.of(phase.data, team.data(phase.data))
            schedule = schedule.located(pool.rows)
            for start, stop, count in plan.segments(self._rounded):
                program = resident.program(team.room, number, phase, count, plan.width, stop - start)
                program.load(phase, pool, schedule, range(start, stop), factor)
                for _ in range(start, stop):
                    setting.check_stop()
                    program.step()
                    yield
                total[:count] += program.total
        self._found.setdefault("total", {})[str(number)] = total[: len(team.jobs)]
        self._learned.append([max(plan.epochs * sum(sizes), 1) for sizes in plan.batches])
        for place, client in enumerate(team.clients):
            self._flops[place] += team.workshop.phase_flops(
                client.architecture, number, phase, team.received[place], plan.batches[place]
            )

    def _finite(self) -> Tensor:
        """Whether all weights of each client are finite numbers."""
        template, count = self.team.resident.template, len(self.team.jobs)
        each = torch.ones(count, dtype=torch.bool, device=self.team.setting.device)
        for run in template.layout.runs(template.parameters(tuple(template.modules))):
            if run.dtype.is_floating_point:
                each &= torch.isfinite(run.of(self.team.stack.rows[:count])).all(1)
        return each

    def fetch(self) -> None:
        """Begin to fetch what came of it, without waiting for the device."""
        # All of it is waited for once.
        self._arriving = fetching({
            f"{part} {name}": tensor for part, named in self._found.items() for name, tensor in named.items()
        })  # fmt: skip
        self._states = self.team.stack.states(len(self.team.jobs))

    def outcomes(self) -> Iterator[Outcome]:
        """What came of it, in the order of the clients; it was fetched before."""
        team, algorithm = self.team, self.team.setting.algorithm
        template, stack = team.resident.template, team.stack
        flat = self._arriving.wait()
        host = {part: {name: flat[f"{part} {name}"] for name in named} for part, named in self._found.items()}
        states = list(self._states)
        for number, job in sorted(enumerate(team.jobs), key=lambda entry: entry[1].client.id):
            state, client = states[number], job.client
            losses = [
                float(total[number]) / learned[number]
                for total, learned in zip(host.get("total", {}).values(), self._learned, strict=True)
            ]
            require_finite(self.round, client, losses, bool(host["finite"][""][number]))
            collected = {name: tensor[number] for name, tensor in host.get("sum", {}).items()}
            # Copies: a client may do with what it received as it likes.
            received = {name: tensor.clone() for name, tensor in team.received[number].items()}
            net = template.networks(state)
            with (
                sent_by(client.id),
                Counter() as making,
                calling(algorithm, "upload", client=client.id, round=self.round),
            ):
                sent = algorithm.upload(net, collected, received, len(client.train), self.round)
                upload = given(Payload, sent).copied()
            state = remembering(algorithm, state, team.received[number])
            if team.cache.enabled:
                try:
                    team.cache.put(client.id, state, stack.row(number))
                except torch.cuda.OutOfMemoryError:
                    team.cache.clear()  # they will come from the CPU
            yield Outcome(
                client=client.id,
                state=state,
                upload=upload,
                loss=loss_of_round(losses, self._adapting),
                flops=self._flops[number] + making.total,
                evaluation=team.evaluation(host["judged"], number),
            )
