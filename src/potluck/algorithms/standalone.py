"""Standalone: every client trains alone, and nothing travels. The baseline of every comparison."""

from __future__ import annotations

from typing import ClassVar

from potluck.algorithms.base import Algorithm


class Standalone(Algorithm):
    """Local training alone.

    Only the clients of a round's cohort train in it, so that every method gets the same training budget.
    """

    name: ClassVar[str] = "standalone"
    title: ClassVar[str] = "Standalone"
    paper: ClassVar[str] = "local training, the baseline that the papers call the lower bound"
    venue: ClassVar[str] = "local training"
