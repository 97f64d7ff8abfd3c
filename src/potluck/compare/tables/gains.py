"""Which clients gain by a method, and which lose, in words."""

from __future__ import annotations

from potluck.compare.comparing import Comparison
from potluck.compare.gains import Gains


def gain_heading(comparison: Comparison) -> str:
    """What the lines of :func:`gain_lines` are about."""
    seeds = "" if all(len(row.group.runs) == 1 for row in comparison.rows) else "; the clients of each seed count"
    return f"Every client compared with itself under {comparison.baseline_title} (test accuracy, last round{seeds}):"


def gain_lines(comparison: Comparison) -> list[str]:
    """A sentence for each method whose clients can be paired with the baseline's."""
    return [f"{row.group.title}: {in_words(row.gains)}" for row in comparison.rows if row.gains is not None]


def in_words(gains: Gains) -> str:
    """What clients gain and lose, in one sentence.

    >>> in_words(Gains(100, 88, 9, 3, 0.131, 0.142, -0.06, 0.4))
    '88 of 100 clients gain (at best +40.0 points), 9 lose (at worst -6.0), 3 equal; median change +14.2 points'
    """
    best = f" (at best {_points(gains.best)} points)" if gains.gain else ""
    worst = f" (at worst {_points(gains.worst)})" if gains.lose else ""
    clients = "client gains" if gains.count == 1 else "clients gain"
    return (
        f"{gains.gain} of {gains.count} {clients}{best}, {gains.lose} lose{worst}, {gains.equal} equal; "
        f"median change {_points(gains.median)} points"
    )


def _points(share: float) -> str:
    text = f"{100 * share:+.1f}"
    return text[1:] if float(text) == 0 else text
