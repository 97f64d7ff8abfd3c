"""Runs on disk, read for analysis: what each was asked, what came of it, which are the same but for the seed."""

from __future__ import annotations

from potluck.results.grouping import Group, differing, groups
from potluck.results.reading import read_run, read_runs
from potluck.results.result import ClientRecords, RoundResult, RunResult

__all__ = ["ClientRecords", "Group", "RoundResult", "RunResult", "differing", "groups", "read_run", "read_runs"]
