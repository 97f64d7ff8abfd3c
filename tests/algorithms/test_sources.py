"""Every algorithm has a transcription that names its source and choices, and a test that compares the two."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from potluck.algorithms import find, names

from . import literal, test_equations, test_equations_baselines

OURS = [name for name in names() if find(name).__module__.startswith("potluck.algorithms.")]


def transcription(name: str) -> str:
    """What the transcriptions of an algorithm say of themselves; Standalone is FedAvg with one client."""
    key = {"standalone": "fedavg"}.get(name, name.replace("-", ""))
    files = [module.name for module in pkgutil.iter_modules(literal.__path__) if module.name.startswith(key)]
    return "\n".join(importlib.import_module(f"{literal.__name__}.{file}").__doc__ or "" for file in files)


@pytest.mark.parametrize("name", OURS)
def test_a_transcription_names_its_source_and_where_that_is_silent(name: str) -> None:
    text = transcription(name)
    assert "Source:" in text
    assert "silent" in text
    assert "\n* " in text


@pytest.mark.parametrize("name", OURS)
def test_every_algorithm_is_compared_with_its_transcription(name: str) -> None:
    tests = [test.replace("_", "") for file in (test_equations, test_equations_baselines) for test in vars(file)]
    assert [test for test in tests if test.startswith(f"test{name.replace('-', '')}")]


def test_there_are_fifteen() -> None:
    assert len(OURS) == 15
