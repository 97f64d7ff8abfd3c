"""What accuracy can be drawn over: rounds, local epochs, bytes, operations, seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from potluck.errors import ConfigError, PotluckError, nearest
from potluck.report.format import duration, operations, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from potluck.results import RunResult


@dataclass(frozen=True)
class XAxis:
    """Something to draw over.

    Attributes:
        label: What is written under the axis.
        cost: What one round adds, of its record and the local epochs of a round.
        text: How a place on the axis is written.
        costly: Whether it is a cost that some methods may not have at all, and others a thousand times.
    """

    label: str
    cost: Callable[[Mapping[str, Any], float], float]
    text: Callable[[float], str]
    costly: bool = False

    def places(self, records: Sequence[Mapping[str, Any]], epochs: float = 1) -> list[float]:
        """Where the end of each round is."""
        return list(accumulate(self.cost(record, epochs) for record in records))


def _played(record: Mapping[str, Any]) -> float:
    return 1.0 if record["round"] > 0 else 0.0  # enrolment is no round


AXES = {
    "rounds": XAxis("communication rounds", lambda record, _: _played(record), lambda value: f"{value:g}"),
    "epochs": XAxis(
        "local epochs of a client that always takes part",
        lambda record, epochs: _played(record) * epochs,
        lambda value: f"{value:g}",
    ),
    "bytes": XAxis(
        "bytes sent and received by all clients",
        lambda record, _: float(record["bytes_up"] + record["bytes_down"]),
        lambda value: size(round(value)),
        costly=True,
    ),
    "flops": XAxis(
        "floating-point operations of clients and server",
        lambda record, _: float(record["flops"]),
        lambda value: operations(round(value)),
    ),
    "seconds": XAxis(
        "time of the run", lambda record, _: float(record["seconds"]), lambda value: duration(value) if value else "0"
    ),
}


_STEPS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800),
    *(3600.0 * hours for hours in (1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 10**9)),
)
"""Stretches of time between two ticks, in seconds."""


def x_axis(name: str) -> XAxis:
    """What to draw over, by name."""
    if name not in AXES:
        raise ConfigError(nearest(name, AXES, "x axis"))
    return AXES[name]


def write_ticks(axes: Axes, axis: XAxis) -> None:
    """Label the x axis, with few enough ticks for their text; to be called when everything is drawn."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, MultipleLocator, NullFormatter, NullLocator

    axes.set_xlabel(axis.label)
    if axis.costly:
        # Below its threshold, a logarithmic axis that has a place for nothing is linear, and has no room for ticks.
        dense = 2 * getattr(axes.xaxis.get_transform(), "linthresh", 0.0)
        ticks = byte_ticks(*axes.get_xlim(), axes.get_xscale() == "linear")
        axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick == 0 or tick >= dense]))
        axes.xaxis.set_minor_locator(NullLocator())
    elif axis is AXES["seconds"]:
        step = next(step for step in _STEPS if axes.get_xlim()[1] <= 5.5 * step)
        axes.xaxis.set_major_locator(MultipleLocator(step))
    else:
        whole = axis in (AXES["rounds"], AXES["epochs"])
        axes.xaxis.set_major_locator(MaxNLocator(6 if whole else 4, integer=whole, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis.text(value) if value >= 0 else ""))
    axes.xaxis.set_minor_formatter(NullFormatter())


def byte_ticks(low: float, high: float, linear: bool) -> list[float]:
    """Where to write numbers of bytes so that they are round in KiB, MiB, ...; a first one at nothing if it is in view.

    >>> byte_ticks(0, 5 << 20, linear=True) == [0, 1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20]
    True
    >>> byte_ticks(100, 1 << 22, linear=False) == [1 << 10, 1 << 15, 1 << 20]
    True
    """
    if linear:
        unit = 1024.0 ** (int(math.log(max(high, 1), 1024)))
        step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if high <= 5.5 * step * unit)
        ticks = [step * unit * number for number in range(7)]
    else:
        powers = [2.0**power for power in range(0, 80, 5) if low <= 2.0**power <= high]
        every = -(-len(powers) // 5) or 1
        ticks = [*([0.0] if low <= 0 else []), *powers[::every]]
    return [tick for tick in ticks if low <= tick <= high]


def local_epochs(run: RunResult) -> float:
    """Passes of a client over its own training samples in a round, over all phases of the method."""
    from potluck import algorithms
    from potluck.contract import Round

    own = float(run.config["epochs"])
    try:
        method = algorithms.algorithm(run.algorithm, run.algorithm_settings)
        phases = method.phases(Round(2, 2))
    except (PotluckError, TypeError, ValueError):
        return own  # a method of somebody's own that is not registered here
    passes = sum(own if phase.epochs is None else phase.epochs for phase in phases if phase.data == "train")
    return passes or own
