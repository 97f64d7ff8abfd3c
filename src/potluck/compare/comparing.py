"""What a comparison says: each method's accuracy and costs, and its difference from a baseline."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from potluck.compare.costs import Cost, cost_to, mean_cost, total_cost
from potluck.compare.gains import BASELINE, Gains, gains, named
from potluck.compare.pairing import by_seed, over_seeds
from potluck.compare.sharing import samples, unequal
from potluck.errors import ConfigError, nearest
from potluck.metrics.protocol import MEANING
from potluck.results import Group, RunResult, differing, groups
from potluck.significance import Interval, Paired, holm, interval, paired_t, wilcoxon

TESTS = {"t": paired_t, "wilcoxon": wilcoxon}
PAPERS = "participants_best"


@dataclass(frozen=True)
class Row:
    """A method, over its seeds.

    Attributes:
        group: Its runs.
        accuracy: Mean over clients and seeds, deviation over seeds, and interval over seeds and clients.
        difference: From the baseline, paired over clients, each averaged over seeds; None for the baseline itself and
            where nothing pairs.
        spread: The same differences with the seeds apart: their interval over seeds and clients; None likewise.
        p: The test's, corrected for the number of comparisons.
        gains: How many clients gain and lose, in the last round; None as for the difference.
        total: Costs of a whole run, mean over seeds.
        to_target: Costs up to the target; None unless all seeds reached it.
        reached: How many seeds reached the target.
        samples: The fewest and the most training samples of a client; None where that is not recorded.
    """

    group: Group
    accuracy: Interval
    difference: Paired | None
    spread: Interval | None
    p: float | None
    gains: Gains | None
    total: Cost
    to_target: Cost | None
    reached: int
    samples: tuple[int, int] | None


@dataclass(frozen=True)
class Comparison:
    """Methods side by side, under one protocol.

    Attributes:
        protocol: How accuracy is measured; see :mod:`potluck.metrics.protocol`.
        test: Name of the paired test.
        baseline: Name of the method that all others are compared to.
        target: The accuracy up to which costs are counted; None if there is none.
        target_reason: Where it comes from, in words.
        rows: The methods.
        warnings: What a reader has to know.
        unequal: Whether, of one seed, clients hold other numbers of training samples under one method than under
            another.
    """

    protocol: str
    test: str
    baseline: str
    target: float | None
    target_reason: str
    rows: Sequence[Row]
    warnings: Sequence[str]
    unequal: bool

    @property
    def baseline_title(self) -> str:
        """The baseline as its paper spells it."""
        return next(row.group.title for row in self.rows if row.group.name == self.baseline)

    @property
    def tests(self) -> int:
        """How many tests were made, for which p-values are corrected."""
        return sum(row.p is not None for row in self.rows)


def compare_runs(
    results: Sequence[RunResult],
    *,
    baseline: str | None = None,
    protocol: str = "all_last",
    target: float | None = None,
    test: str = "t",
    compared: Collection[str] = (),
) -> Comparison:
    """Compare finished runs.

    Args:
        results: Runs, as :func:`potluck.results.read_runs` gives them.
        baseline: A method, with its settings if there are several of it; by default Standalone, and
            without it the first.
        protocol: A name of :data:`potluck.metrics.protocol.MEANING`, or ``papers``.
        target: Costs are counted up to this accuracy too; by default what every seed of the
            baseline reaches, in whole percent.
        test: ``t`` or ``wilcoxon``.
        compared: Settings besides the algorithm's own that are meant to differ.
    """
    protocol = named_protocol(protocol)
    refuse_choices(test, target)
    finished = [result for result in results if result.finished]
    found = groups(finished)
    if not found:
        raise ConfigError("there is no finished run to compare yet.")
    base = _baseline(found, baseline)
    reason = "as asked"
    if target is None:
        target = _own_target(run.accuracy(protocol) for run in base.runs)
        reason = f"which {'every seed of ' if len(base.runs) > 1 else ''}{base.title} reaches"
    warnings = _warnings(results, finished, compared)
    tests: list[Paired | None] = []
    spreads: list[Interval | None] = []
    for group in found:
        pairs, remarks = by_seed(group, base, protocol) if group is not base else ({}, [])
        apart = [ours - theirs for ours, theirs in pairs.values()]
        tests.append(TESTS[test](over_seeds(apart)) if apart else None)
        spreads.append(interval(apart) if apart else None)
        warnings += [remark for remark in remarks if remark not in warnings]
    corrected = holm([paired.p if paired else None for paired in tests])
    rows = []
    for group, difference, spread, p in zip(found, tests, spreads, corrected, strict=True):
        accuracy = interval([*run.client_accuracies(protocol).values()] for run in group.runs)
        reached = [cost_to(run, target, protocol) for run in group.runs] if target is not None else []
        whole = [cost for cost in reached if cost is not None]
        to_target = mean_cost(whole) if len(whole) == len(group.runs) else None
        total = mean_cost([total_cost(run) for run in group.runs])
        helped = gains(group, base) if group is not base else None
        rows.append(Row(group, accuracy, difference, spread, p, helped, total, to_target, len(whole), samples(group)))
    return Comparison(protocol, test, base.name, target, reason, rows, warnings, unequal(found))


def named_protocol(name: str) -> str:
    """A protocol by its name, with hyphens or not; ``papers`` is the papers' own.

    >>> named_protocol("papers"), named_protocol("all-last")
    ('participants_best', 'all_last')
    """
    known = {**{key: key for key in MEANING}, **{key.replace("_", "-"): key for key in MEANING}, "papers": PAPERS}
    if name not in known:
        raise ConfigError(nearest(name, ["papers", *(key.replace("_", "-") for key in MEANING)], "protocol"))
    return known[name]


def refuse_choices(test: str, target: float | None) -> None:
    """Raise if there is no such test, or a target is no accuracy."""
    if test not in TESTS:
        raise ConfigError(nearest(test, TESTS, "test"))
    if target is not None and not 0 < target <= 1:
        raise ConfigError(f"--target {target} is no accuracy: give a share such as 0.8, more than 0 and up to 1.")


def _own_target(accuracies: Iterable[float | None]) -> float | None:
    """The lowest of a baseline's accuracies, rounded down to whole percent."""
    least = min((accuracy for accuracy in accuracies if accuracy is not None), default=0.0)
    return math.floor(100 * least + 1e-9) / 100 or None


def _baseline(found: Sequence[Group], name: str | None) -> Group:
    if name is not None:
        return named(found, name)
    return next((group for group in found if group.algorithm == BASELINE), found[0])


def _warnings(results: Sequence[RunResult], finished: Sequence[RunResult], compared: Collection[str]) -> list[str]:
    warnings = []
    unfinished = [str(result.path) for result in results if not result.finished]
    if unfinished:
        warnings.append(f"Not finished, and so left out: {', '.join(unfinished)}.")
    others = differing(finished, compared)
    if others:
        details = "; ".join(f"{key} ({', '.join(map(_text, values))})" for key, values in others.items())
        warnings.append(f"The runs differ in more than what is compared: {details}.")
    return warnings


def _text(value: Any) -> str:
    return "unset" if value is None else str(value)
