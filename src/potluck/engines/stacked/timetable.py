"""What teams that train side by side do in each phase, worked out for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from potluck import draws
from potluck.contract import Phase, Round
from potluck.engines.stacked.schedule import Plan, Schedule, make_schedule
from potluck.engines.stacked.team import Team

_WASTE = 2
"""Teams are planned together as long as that does not take more than so many times the memory."""


class Timetable:
    """The schedules of some teams for a round.

    To work one out takes hundreds of small operations. They take a GPU hardly longer for all clients than for one.

    Args:
        teams: Who trains.
        round: The round.
        stream: Where schedules are worked out, on a GPU: beside what teams do already.
    """

    def __init__(self, teams: Sequence[Team], round: Round, stream: torch.cuda.Stream | None) -> None:
        self._teams, self._round, self._stream = teams, round, stream
        self._made: dict[int, dict[Team, tuple[Plan, Schedule]]] = {}

    def of(self, team: Team, number: int, phase: Phase) -> tuple[Plan, Schedule]:
        """What one of the teams does in a phase. It is given once, and then forgotten."""
        if number not in self._made:
            with torch.cuda.stream(self._stream):  # which may be none
                self._made[number] = self._make(number, phase)
        plan, schedule = self._made[number].pop(team)
        if self._stream is not None:
            here = torch.cuda.current_stream(team.setting.device)
            here.wait_stream(self._stream)
            schedule.used_by(here)
        return plan, schedule

    def _make(self, number: int, phase: Phase) -> dict[Team, tuple[Plan, Schedule]]:
        plans = [self._plan(team, number, phase) for team in self._teams]
        together = Plan.joined(plans)
        if together.volume > _WASTE * sum(plan.volume for plan in plans):
            schedules = [self._schedule(plan, phase) for plan in plans]
        else:
            whole, schedules, first = self._schedule(together, phase), [], 0
            for plan in plans:
                clients = slice(first, first + len(plan.keys))
                schedules.append(whole.part(clients, max(plan.steps), plan.width))
                first = clients.stop
        return dict(zip(self._teams, zip(plans, schedules, strict=True), strict=True))

    def _plan(self, team: Team, number: int, phase: Phase) -> Plan:
        setting, data = team.setting, team.data(phase.data)
        keys = [draws.fold(setting.seed, "train", self._round.number, c.id, number) for c in team.clients]
        samples, batches = [len(examples) for examples in data], team.batches(phase, data)
        return Plan(keys, samples, batches, team.workshop.epochs(phase), setting.training.batch_size)

    def _schedule(self, plan: Plan, phase: Phase) -> Schedule:
        setting = self._teams[0].setting
        schedule = make_schedule(plan, phase.views if phase.augmented else 0, setting.device)
        return replace(schedule, views=setting.transform.plan(schedule.views, setting.task.shape))
