"""Which figures a report has, and why those are missing that cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from potluck.report.figures.accuracy import accuracy_plot
from potluck.report.figures.attribution import attribution_plot
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.boxes import box_plot
from potluck.report.figures.differences import differences_plot
from potluck.report.figures.embedding import embedding_plot
from potluck.report.figures.enhanced import enhanced_plot
from potluck.report.figures.gradient import gradient_plot
from potluck.report.figures.mixing import mixing_plot
from potluck.report.figures.opened import Opened, one_line
from potluck.report.figures.partition import partition_plot
from potluck.report.figures.tradeoff import tradeoff_plot

if TYPE_CHECKING:
    from potluck.results import Group


@dataclass(frozen=True)
class Missing:
    """A figure that cannot be made, and why."""

    title: str
    reason: str


def plots(
    groups: Sequence[Group], opened: Opened, *, quick: bool, tell: Callable[[str], None]
) -> tuple[list[Plot], list[Missing]]:
    """Every figure that applies to these runs and can be made of them, and why the others cannot.

    Args:
        groups: The methods.
        opened: Opens runs for their data sets and networks.
        quick: Leave out what needs the clients' networks.
        tell: Told what is being drawn.
    """
    makers: list[tuple[str, bool, Callable[[], Plot | None]]] = [
        ("Accuracy as runs go on", False, lambda: accuracy_plot(groups)),
        ("Accuracy over clients", False, lambda: box_plot(groups)),
        ("Accuracy, communication and computation", False, lambda: tradeoff_plot(groups)),
        ("Client by client", False, lambda: differences_plot(groups)),
        ("Who has what", False, lambda: partition_plot(groups, opened)),
        ("Representations", True, lambda: embedding_plot(groups, opened)),
        ("Original and enhanced images", True, lambda: enhanced_plot(groups, opened)),
        ("Mixing vector", False, lambda: mixing_plot(groups)),
        ("Unit attribution ranks", True, lambda: attribution_plot(groups, opened)),
        ("Gradient norm against O(1/T)", False, lambda: gradient_plot(groups)),
    ]
    made, missing = [], []
    for title, needs_networks, make in makers:
        if quick and needs_networks:
            missing.append(Missing(title, "what needs the clients' networks was left out, as asked"))
            continue
        tell(title)
        try:
            plot = make()
        except NoFigureError as error:
            missing.append(Missing(title, one_line(error)))
        except Exception as error:  # whatever it is, the rest of the page is worth having
            missing.append(Missing(title, f"it could not be made: {type(error).__name__}: {one_line(error)}"))
        else:
            made += [plot] if plot is not None else []
    return made, missing
