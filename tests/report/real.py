"""Small runs with networks, made once for all tests of figures."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from run import tiny

METHODS = ("pfedes", "pfedafm", "fedclassavg")
_HOME = TemporaryDirectory()  # goes when the tests end


@lru_cache
def folder() -> Path:
    """A folder with a run of each method, of three rounds."""
    home = Path(_HOME.name) / "runs"
    with pytest.MonkeyPatch.context() as patch:
        for method in METHODS:
            arguments = (*tiny.ARGUMENTS, "--rounds", 3, "--set", "evaluate_every=1", "--set", "measure=gradient-norm")
            own = ("--set", "algorithm.extractor_epochs=1") if method == "pfedes" else ()
            assert tiny.call(patch, "run", method, *arguments, *own, "--out", home / method) == 0
    return home
