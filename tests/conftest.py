"""What all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from run import tiny

# Several workers of pytest share the cores; and one thread adds up in one order.
torch.set_num_threads(1)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data set is to be found but the carried one."""
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no cache"))


@pytest.fixture
def potluck(
    no_data: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tiny.Result]:
    """The command line, in this process: whatever it does not turn into an exit code fails the test."""

    def run(*arguments: object) -> tiny.Result:
        capfd.readouterr()
        code = tiny.call(monkeypatch, *arguments)
        return tiny.Result(code, *capfd.readouterr())

    return run
