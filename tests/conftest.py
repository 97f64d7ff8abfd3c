"""What all tests share."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from potluck.engines.stacked.roster import Roster
from potluck.engines.stacked.team import Team
from run import tiny

collect_ignore = ["attack"]
"""Takes minutes, and has its own command: ``make test-attack``."""

# Several workers of pytest share the cores; and one thread adds up in one order.
torch.set_num_threads(1)

# A shell that runs tests in the background lets them ignore Ctrl-C, and the commands that they test as well.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


@pytest.fixture
def steps_may_fail() -> None:
    """For tests in which stacked clients fail on purpose."""


@pytest.fixture(autouse=True)
def no_step_fails(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacked clients that fail go on by themselves; where that is not the point, it would hide what is wrong."""

    def refuse(_roster: Roster, _team: Team, reason: str) -> None:
        raise AssertionError(f"what stacked clients did together failed: {reason}")

    if "steps_may_fail" not in request.fixturenames:
        monkeypatch.setattr(Roster, "refuse", refuse)


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
    # Lines that come every few seconds would come on a busy machine alone.
    monkeypatch.setattr("potluck.report.progress._EVERY", math.inf)
    monkeypatch.setattr("potluck.compare.watching._EVERY", math.inf)

    def run(*arguments: object) -> tiny.Result:
        capfd.readouterr()
        code = tiny.call(monkeypatch, *arguments)
        return tiny.Result(code, *capfd.readouterr())

    return run
