"""Every algorithm has a transcription that names its source and choices, and a test that compares the two."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

from potluck.algorithms import Algorithm, find, names

from . import literal, test_equations, test_equations_baselines

OURS = [name for name in names() if find(name).__module__.startswith("potluck.algorithms.")]


def transcribed(name: str) -> str:
    """The function that transcribes an algorithm; Standalone is FedAvg with one client."""
    return {"standalone": "fedavg"}.get(name, name.replace("-", ""))


def transcription(name: str) -> str:
    """What the transcriptions of an algorithm say of themselves."""
    files = [file.name for file in pkgutil.iter_modules(literal.__path__) if file.name.startswith(transcribed(name))]
    return "\n".join(importlib.import_module(f"{literal.__name__}.{file}").__doc__ or "" for file in files)


@pytest.mark.parametrize("name", OURS)
def test_a_transcription_names_its_source_and_where_that_is_silent(name: str) -> None:
    text = transcription(name)
    assert "Source:" in text
    assert "silent" in text
    assert "\n* " in text


def compared(file: ModuleType) -> Iterator[str]:
    """The algorithms of which a test makes a twin, to which it applies the function that transcribes them."""
    for key, test in vars(file).items():
        if not key.startswith("test_") or "Twin" not in test.__code__.co_names:
            continue
        kinds = [vars(file).get(name) for name in test.__code__.co_names]
        found = {kind.name for kind in kinds if isinstance(kind, type) and issubclass(kind, Algorithm)}
        for name in found | set(OURS).intersection(test.__code__.co_consts):
            if transcribed(name) in test.__code__.co_names:
                yield name


@pytest.mark.parametrize("name", OURS)
def test_every_algorithm_is_compared_with_its_transcription(name: str) -> None:
    assert name in {*compared(test_equations), *compared(test_equations_baselines)}
    assert callable(getattr(literal, transcribed(name)))


def test_there_are_fifteen() -> None:
    assert len(OURS) == 15
