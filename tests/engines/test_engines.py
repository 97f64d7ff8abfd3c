"""Engines and devices by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from potluck import engines
from potluck.engines import Engine, Setting, find_devices, make_engine
from potluck.engines.loop import Loop
from potluck.engines.stacked import Stacked
from potluck.errors import ConfigError

from .made_up import MadeUp, setting


@pytest.mark.parametrize(("name", "kind"), [("auto", Loop), ("loop", Loop), ("stacked", Stacked)])
def test_engines_by_name(name: str, kind: type[Engine]) -> None:
    engine = make_engine(name, setting(MadeUp()))
    assert type(engine) is kind
    assert engine.name == kind.name and engine.notes == ()


def test_on_a_gpu_auto_is_stacked(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Setting] = []
    monkeypatch.setitem(engines._KNOWN, "stacked", made.append)
    given = replace(setting(MadeUp()), device=torch.device("cuda"))
    make_engine("auto", given)
    assert made == [given]


def test_an_unknown_engine_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown engine 'lop': did you mean 'loop'"):
        make_engine("lop", setting(MadeUp()))


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_devices("cpu") == [torch.device("cpu")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_devices("auto") == [torch.device("cpu")]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_devices("auto") == [torch.device("cuda")]
    assert find_devices("cuda:1") == [torch.device("cuda:1")]
    with pytest.raises(ConfigError, match="'cuda:2' is not there: this machine has 2 usable GPUs"):
        find_devices("cuda:2")


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="0 usable GPUs"):
        find_devices("cuda")


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "meta", "mps"])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="give cpu, cuda, cuda:1 or auto"):
        find_devices(name)
