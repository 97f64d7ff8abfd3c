"""Who steps together with whom: as many clients of a kind as fit into memory, and who runs on the loop engine."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from weakref import WeakSet

import torch

from potluck.algorithms.hooks import calling, phases_of
from potluck.contract import Received, Round
from potluck.engines.base import Job, Setting
from potluck.engines.memory import receive
from potluck.engines.stacked.cache import Cache
from potluck.engines.stacked.operations.checks import undisturbed
from potluck.engines.stacked.resident import Resident
from potluck.engines.stacked.team import Team
from potluck.engines.stacked.teams import cut, halved, in_powers, power_above
from potluck.engines.workshop import Workshop

_log = logging.getLogger("potluck")

_COPIES = 4
"""What a client takes while it learns, in copies of what it holds: weights, gradients and the optimiser's memory."""
_CPU_ROOM = 2 << 30
"""Bytes for stacked clients on a CPU."""
_FEW = 4
"""Teams of up to so many clients stay as large as they are until the last of them is done."""


_rosters: WeakSet[Roster] = WeakSet()
"""All that there are in this process."""


class Roster:
    """Makes teams.

    Args:
        setting: What all clients have in common.
        rounding: Whether numbers of clients are rounded up.
        cache: States that are on the device already.
    """

    def __init__(self, setting: Setting, rounding: bool, cache: Cache) -> None:
        self.setting = setting
        self.notes: list[str] = []
        self._gpu = setting.device.type == "cuda"
        _rosters.add(self)
        self._rounding, self._cache = rounding, cache
        self._workshop = Workshop(setting)
        self._residents: dict[str, Resident] = {}
        self._most: dict[str, int] = {}
        self._clock = 0
        total = torch.cuda.get_device_properties(setting.device).total_memory if self._gpu else 2 * _CPU_ROOM
        self._room = total // 2
        self._together = self._room
        """Bytes for all teams that run side by side, and for what is kept for others."""

    def most(self, job: Job) -> int:
        """How many clients like this one fit into memory, as far as is known."""
        resident = self._resident(job)
        fit = max(self._room // max(_bytes(resident), 1), 1)
        return min(fit, self._most.get(resident.key, fit))

    def rounded(self, team: Team) -> Callable[[int], int]:
        """To which number a number of clients is rounded up that are still at work."""
        if not self._rounding:
            return lambda count: count
        # A few clients that have nothing to do cost less than another recording.
        return lambda count: halved(count, team.room) if team.room > _FEW else team.room

    def divided(self, jobs: Sequence[Job], round: Round | None) -> tuple[list[Team], list[Job]]:
        """Clients of one kind as teams that fit into memory, and those that run on the loop engine.

        Args:
            jobs: Their work.
            round: The round in which they train; ``None`` if they are only evaluated.
        """
        algorithm, resident = self.setting.algorithm, self._resident(jobs[0])
        if resident.refused is not None:
            return [], list(jobs)
        received = [receive(algorithm, job, self.setting.task) for job in jobs]
        phases = () if round is None else tuple(itertools.chain(*phases_of(algorithm, round)))
        if (reason := resident.refuses(phases, received)) is not None:
            self._say_refused(jobs, reason)
            return [], list(jobs)
        parts = self._parts(len(jobs), self.most(jobs[0]), records=round is not None)
        teams = [self._team(resident, jobs[part], received[part]) for part in parts]
        # The loop engine says what is wrong with these, in its words.
        lonely = [team for team in teams if team.is_lonely(phases, None if round is None else algorithm.collects)]
        return [team for team in teams if team not in lonely], [job for team in lonely for job in team.jobs]

    def _parts(self, count: int, most: int, *, records: bool) -> list[slice]:
        """In which parts clients step; steps that are recorded come in few sizes, so that they are used again."""
        return in_powers(count, most) if records and self._rounding else cut(count, most)

    def waves(self, teams: Sequence[Team]) -> Iterator[list[Team]]:
        """Teams that run side by side: of different architectures, and together within the memory that there is."""
        wave: list[Team] = []
        left = 0
        for team in teams:
            size = team.room * _bytes(team.resident)
            if wave and (not self._gpu or size > left or any(_share_a_track(team, other) for other in wave)):
                yield wave
                wave = []
            left = (left if wave else self._together) - size
            wave.append(team)
        if wave:
            yield wave

    def make_room(self, wave: Sequence[Team]) -> None:
        """Give back what is kept for others, if it leaves too little for these; who worked last stays longest."""
        coming: dict[Resident, set[int]] = {}
        for team in wave:
            coming.setdefault(team.resident, set()).add(team.room)
        left = self._together - sum(sum(rooms) * _bytes(resident) for resident, rooms in coming.items())
        for resident in sorted(self._residents.values(), key=lambda one: -one.used):
            kept = resident.clients(but=coming.get(resident, ())) * _bytes(resident)
            if kept > max(left, 0):
                resident.clear(but=coming.get(resident, ()))
            else:
                left -= kept
        self._clock += 1
        for resident in coming:
            resident.used = self._clock

    def free(self, working: Iterable[Team]) -> None:
        """Give all memory back but that of teams that are at work."""
        if self._gpu:
            torch.cuda.synchronize(self.setting.device)  # they may still be reading what is given back
        rooms: dict[Resident, set[int]] = {}
        for team in working:
            rooms.setdefault(team.resident, set()).add(team.room)
        for resident in self._residents.values():
            resident.clear(but=rooms.get(resident, ()))
        self._cache.clear()
        if self._gpu and not rooms and len(_rosters) == 1:
            # Products of matrices have a workspace for every stream of the process, and recordings know where it lies.
            with undisturbed():
                getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()
        torch.cuda.empty_cache()  # which does nothing without a GPU

    def crowded(self, wave: Sequence[Team]) -> None:
        """Let fewer teams train side by side from now on, for these did not fit into memory together."""
        self._together = min(self._together, sum(team.room * _bytes(team.resident) for team in wave)) // 2
        self._say(
            f"{sum(len(team.jobs) for team in wave)} clients do not fit into the memory of {self.setting.device} side "
            "by side: fewer train at the same time from now on."
        )

    def refuse(self, team: Team, reason: str) -> None:
        """Let clients like these run on the loop engine from now on, for their step failed where its trial did not."""
        if self._gpu:
            torch.cuda.synchronize(self.setting.device)  # others of them may still be at work in what is given back
        team.resident.refuse(reason)
        self._cache.clear()  # which may be theirs; the rest comes from the CPU once more
        self._say_refused(team.jobs, reason)

    def _say_refused(self, jobs: Sequence[Job], reason: str) -> None:
        first = min(job.client.id for job in jobs)
        self._say(f"clients with the networks of client {first} run on the loop engine, one by one: {reason}.")

    def smaller(self, team: Team) -> Iterator[Team]:
        """A team that was too large in two halves, or in even smaller parts if the first half is too large as well."""
        if len(team.jobs) == 1:
            raise torch.cuda.OutOfMemoryError(
                f"client {team.clients[0].id} alone does not fit into the memory of {self.setting.device}."
            )
        half = -(-len(team.jobs) // 2)
        self._most[team.resident.key] = half
        self._say(
            f"{len(team.jobs)} clients with the networks of client {min(client.id for client in team.clients)} do not "
            f"fit into the memory of {self.setting.device} at once: going on with {half} at a time."
        )
        start = 0
        while start < len(team.jobs):
            part = slice(start, start + self.most(team.jobs[0]))
            yield self._team(team.resident, team.jobs[part], team.received[part])
            start = part.stop

    def _resident(self, job: Job) -> Resident:
        architecture = job.client.architecture
        if architecture.key not in self._residents:
            with calling(self.setting.algorithm, "networks", client=job.client.id):
                made = Resident(self.setting, self._workshop, architecture, keeps=self._gpu)
            self._residents[architecture.key] = made
        return self._residents[architecture.key]

    def _team(self, resident: Resident, jobs: Sequence[Job], received: Sequence[Received]) -> Team:
        room = power_above(len(jobs)) if self._rounding else len(jobs)
        return Team(resident, self._workshop, self._cache, jobs, received, room)

    def _say(self, note: str) -> None:
        self.notes.append(note)
        _log.warning(note)


def _share_a_track(one: Team, other: Team) -> bool:
    return one.resident is other.resident and one.room == other.room


def _bytes(resident: Resident) -> int:
    """What a client of an architecture takes while it learns."""
    return _COPIES * resident.template.bytes
