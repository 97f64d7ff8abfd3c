"""Standalone: every client trains alone, and nothing travels. What any federation has to beat."""

from __future__ import annotations

from typing import ClassVar

from potluck.algorithms.base import Algorithm


class Standalone(Algorithm):
    """Local training alone.

    Only the clients of a round's cohort train in it, so that every method gets the same training budget.
    """

    name: ClassVar[str] = "standalone"
    title: ClassVar[str] = "Standalone"
    paper: ClassVar[str] = "local training, the lower bound in all five papers"
    venue: ClassVar[str] = "the lower bound"
