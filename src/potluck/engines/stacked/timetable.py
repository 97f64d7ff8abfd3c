"""What teams that train side by side do in each phase, worked out for all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import torch

from potluck import draws
from potluck.contract import Phase, Round
from potluck.engines.demands import require_networks
from potluck.engines.stacked.schedule import Plan, Schedule, make_schedule
from potluck.engines.stacked.team import Team

T = TypeVar("T")

_WASTE, _MOST = 2, 1 << 20
"""Teams are planned together as long as that is not so many times what they are by themselves, nor more samples."""


class Timetable:
    """The schedules of some teams for a round.

    To work one out takes hundreds of small operations. They take a GPU hardly longer for many clients than for one.

    Args:
        teams: Who trains.
        round: The round.
        stream: Where schedules are worked out, on a GPU: beside what teams do already.
    """

    def __init__(self, teams: Sequence[Team], round: Round, stream: torch.cuda.Stream | None) -> None:
        self._teams, self._round, self._stream = list(teams), round, stream
        self._groups: dict[int, list[dict[Team, Plan]]] = {}
        self._made: dict[int, dict[Team, Schedule]] = {}

    def of(self, team: Team, number: int, phase: Phase) -> tuple[Plan, Schedule]:
        """What one of the teams does in a phase. It is given once, and then forgotten."""
        if number not in self._groups:
            self._groups[number] = planned_together({each: self._plan(each, number, phase) for each in self._teams})
        plan = self._group(number, team)[team]
        made = self._made.setdefault(number, {})
        if team not in made:
            with torch.cuda.stream(self._stream):  # which may be none
                made |= self._schedules(number, team, phase)
        schedule = made.pop(team)
        if self._stream is not None:
            here = torch.cuda.current_stream(team.setting.device)
            here.wait_stream(self._stream)
            schedule.used_by(here)
        return plan, schedule

    def leave(self, team: Team) -> None:
        """Plan no more for a team, and forget what was planned for it."""
        self._teams.remove(team)
        for made in self._made.values():
            made.pop(team, None)
        for groups in self._groups.values():
            for group in groups:
                group.pop(team, None)

    def _group(self, number: int, team: Team) -> dict[Team, Plan]:
        return next(group for group in self._groups[number] if team in group)

    def _plan(self, team: Team, number: int, phase: Phase) -> Plan:
        require_networks(number, phase, team.resident.net.modules)
        setting, data = team.setting, team.data(phase.data)
        keys = [draws.fold(setting.seed, "train", self._round.number, c.id, number) for c in team.clients]
        samples, batches = [len(examples) for examples in data], team.batches(phase, data)
        return Plan(keys, samples, batches, team.workshop.epochs(phase), setting.training.batch_size)

    def _schedules(self, number: int, team: Team, phase: Phase) -> dict[Team, Schedule]:
        """Those of a team and of all that are planned with it; that of the team alone, if memory is short."""
        group = self._group(number, team)
        whole, found, first = None, {}, 0
        try:
            whole = self._schedule(Plan.joined(list(group.values())), phase)
        except torch.cuda.OutOfMemoryError:
            if len(group) == 1:
                raise
        if whole is None:  # what was made of it is free only now
            self._groups[number] = [{each: plan} for one in self._groups[number] for each, plan in one.items()]
            return self._schedules(number, team, phase)
        for each, plan in group.items():
            clients = slice(first, first + len(plan.keys))
            found[each] = whole.part(clients, max(plan.steps), plan.width)
            first = clients.stop
        return found

    def _schedule(self, plan: Plan, phase: Phase) -> Schedule:
        setting = self._teams[0].setting
        schedule = make_schedule(plan, phase.views if phase.augmented else 0, setting.device)
        return replace(schedule, views=setting.transform.plan(schedule.views, setting.task.shape))


def planned_together(plans: Mapping[T, Plan]) -> list[dict[T, Plan]]:
    """Plans in groups: as many of them in each, in their order, as it takes little more memory for than one by one.

    >>> short, long = (Plan([0], [size], [[4] * (size // 4)], epochs=1, batch_size=4) for size in (8, 80))
    >>> [list(group) for group in planned_together({"a": short, "b": short, "c": long})]
    [['a', 'b'], ['c']]
    """
    groups: list[dict[T, Plan]] = []
    for one, plan in plans.items():
        together = [*groups[-1].values(), plan] if groups else [plan]
        volume = Plan.joined(together).volume
        if groups and volume <= min(_WASTE * sum(each.volume for each in together), _MOST):
            groups[-1][one] = plan
        else:
            groups.append({one: plan})
    return groups
