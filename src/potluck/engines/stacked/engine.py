"""Trains clients of one architecture together: their weights stacked, every operation done for all of them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from potluck.contract import Round
from potluck.engines.base import Engine, Job, Outcome, Setting
from potluck.engines.loop import Loop
from potluck.engines.stacked.cache import Cache
from potluck.engines.stacked.course import Course
from potluck.engines.stacked.failure import attempt
from potluck.engines.stacked.roster import Roster
from potluck.engines.stacked.team import Team
from potluck.engines.stacked.teams import grouped, kind
from potluck.engines.stacked.timetable import Timetable
from potluck.engines.stacked.track import new_stream
from potluck.metrics.accuracy import Evaluation

_CACHE, _SHARE = 2 << 30, 16
"""Bytes of states that stay on a GPU at most, and which part of its memory at most."""
_EVALUATED = 64
"""At most so many clients are evaluated at once."""
_IN_TURN = 4
"""So many steps of a team are begun before it is the next one's turn: to change teams takes as long as to begin one."""
_AHEAD = 96 << 20
"""Bytes of what clients hold that are fetched before somebody takes them, if one team has not more by itself."""


class Stacked(Engine):
    """Stacks clients of one architecture and lets them step together, which suits GPUs.

    It computes what the loop engine does. What it cannot stack runs there, and it says so.

    Args:
        setting: What the clients have in common.
        rounding: Whether numbers of clients are rounded up, so that steps recorded for one cohort serve others; by
            default on a GPU, where steps are recorded.
        cache: Bytes of client states that may stay on the device; by default none on a CPU, where they lie anyway.
    """

    name = "stacked"

    def __init__(self, setting: Setting, *, rounding: bool | None = None, cache: int | None = None) -> None:
        super().__init__(setting)
        gpu = setting.device.type == "cuda"
        if cache is None:
            cache = min(_CACHE, torch.cuda.get_device_properties(setting.device).total_memory // _SHARE) if gpu else 0
        kept = Cache(cache)
        self._roster = Roster(setting, gpu if rounding is None else rounding, kept)
        self._planning = new_stream(setting.device)
        self._loop = Loop(setting)

    @property
    def notes(self) -> tuple[str, ...]:
        """What did not go as usual: which networks run on the loop engine, and why; what did not fit into memory."""
        return tuple(self._roster.notes)

    def prepare(self, round: Round, jobs: Iterable[Job]) -> None:
        """Try out whether the networks of clients like these can be stacked."""
        for job in jobs:
            self._roster.divided([job], round)

    # ---- training -------------------------------------------------------------------------------------------------

    def train(self, round: Round, jobs: Sequence[Job]) -> Generator[Outcome, None, None]:
        """Train the clients of a cohort, those of one architecture together."""
        teams: list[Team] = []
        alone: list[Job] = []
        for group in grouped(jobs):
            together, others = self._roster.divided(group, round)
            teams += together
            alone += others
        for wave in self._roster.waves(teams):
            yield from self._run(round, wave)
        yield from self._loop.train(round, _in_order(alone))

    def _run(self, round: Round, teams: Sequence[Team], *, alone: bool = False) -> Iterator[Outcome]:
        """Train teams that run side by side.

        A team that does not fit into memory beside the others begins anew by itself; and if it does not fit even
        then, in two halves. One whose step fails otherwise, for PyTorch has no stacked form of some operation on this
        device, begins anew on the loop engine.

        Args:
            round: The round.
            teams: Who trains.
            alone: Whether nothing else is kept in memory.
        """
        able = [team for team in teams if not _is_refused(team)]
        timetable = Timetable(able, round, self._planning)
        courses = [Course(team, round, timetable, self._roster.rounded(team)) for team in able]
        self._roster.make_room(able)
        unfit = self._step_all(courses, timetable)
        anew = [job for team in teams if _is_refused(team) for job in team.jobs]
        # Small teams are done first: what they hold is fetched while the others are still at work.
        done = [course for course in courses if course not in unfit and not _is_refused(course.team)]
        done.sort(key=lambda course: course.bytes)
        too_large = [course.team for course in unfit if not _is_refused(course.team)]
        for course in _fetched(done):
            with course.team.track.working():
                outcomes = deque(course.outcomes())
            course.team.track.hand_over()
            while outcomes:
                yield outcomes.popleft()  # whoever has it may let go of what the client held
        yield from self._loop.train(round, _in_order(anew))
        said = len(self._roster.notes)
        for team in too_large:
            for part in self._roster.smaller(team) if alone else [team]:
                self._roster.free(())
                yield from self._run(round, [part], alone=True)
        beside = [team for team in able if not _is_refused(team)]
        if too_large and len(beside) > 1 and len(self._roster.notes) == said:
            self._roster.crowded(beside)  # for each of them fits by itself

    def _step_all(self, courses: Sequence[Course], timetable: Timetable) -> list[Course]:
        """Let teams step in turn, each on its own stream; those are given for whom there was not memory enough."""
        running = {course: course.steps() for course in courses}
        begun: set[Course] = set()
        unfit: list[Course] = []
        while running:
            for course in list(running):
                if _is_refused(course.team):  # for others like these failed
                    del running[course]
                    timetable.leave(course.team)
                    continue
                made = 0
                with attempt() as tried:
                    if course not in begun:
                        course.team.track.wait()
                        begun.add(course)
                    with course.team.track.working():
                        made = sum(1 for _ in islice(running[course], _IN_TURN))
                if made < _IN_TURN:
                    del running[course]
                if tried.failure or not tried.fits:
                    timetable.leave(course.team)
                if tried.failure:
                    self._roster.refuse(course.team, tried.failure)
                if not tried.fits:
                    unfit.append(course)
                    self._roster.free([other.team for other in courses if other not in unfit])
        return unfit

    # ---- evaluation -----------------------------------------------------------------------------------------------

    def evaluate(self, jobs: Iterable[Job]) -> Generator[Evaluation, None, None]:
        """Evaluate clients with what they hold; as many at once as there are of one kind, and no more than fit."""
        waiting: dict[object, list[Job]] = {}
        for job in jobs:
            group = waiting.setdefault(kind(job), [])
            group.append(job)
            if len(group) >= min(self._roster.most(job), _EVALUATED):
                yield from self._evaluated(waiting.pop(kind(job)))
        for group in waiting.values():
            yield from self._evaluated(group)

    def _evaluated(self, jobs: Sequence[Job]) -> Iterator[Evaluation]:
        teams, alone = self._roster.divided(jobs, None)
        for team in teams:
            yield from self._judged(team)
        yield from self._loop.evaluate(alone)

    def _judged(self, team: Team, *, alone: bool = False) -> Iterator[Evaluation]:
        self.setting.check_stop()
        if _is_refused(team):
            yield from self._loop.evaluate(team.jobs)
            return
        evaluations: list[Evaluation] = []
        self._roster.make_room([team])
        with attempt() as tried:
            team.track.wait()
            with team.track.working():
                evaluations = list(team.evaluations())
        yield from evaluations
        if tried.failure:
            self._roster.refuse(team, tried.failure)
            yield from self._judged(team)
        elif not tried.fits:
            for part in self._roster.smaller(team) if alone else [team]:
                self._roster.free(())
                yield from self._judged(part, alone=True)

    # ---- one client -----------------------------------------------------------------------------------------------

    def networks(self, job: Job) -> dict[str, nn.Module]:
        """Copies of the networks that one client holds, ready for use."""
        return self._loop.networks(job)

    def predict(self, job: Job, x: Tensor) -> Tensor:
        """Logits of one client for inputs like its own."""
        return self._loop.predict(job, x)


def _in_order(jobs: Iterable[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: job.client.id)


def _is_refused(team: Team) -> bool:
    return team.resident.refused is not None


def _fetched(courses: Sequence[Course]) -> Iterator[Course]:
    """Courses one by one, when what came of them is on its way; that of the next ones is then, too, if it is little."""
    waiting, coming = deque(courses), deque[Course]()
    while waiting or coming:
        while waiting and (not coming or sum(course.bytes for course in (*coming, waiting[0])) <= _AHEAD):
            coming.append(waiting.popleft())
            with coming[-1].team.track.working():
                coming[-1].fetch()
        yield coming.popleft()
