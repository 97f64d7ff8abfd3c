"""From a configuration to who has which samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch

from potluck import algorithms
from potluck.algorithms import Algorithm
from potluck.algorithms.base import Need
from potluck.config import RunConfig, make_config
from potluck.data import sources
from potluck.errors import DataError
from potluck.experiment import make_federation, share_out
from run import tiny


class Open(Algorithm):
    """A method that needs public data, and does nothing with them."""

    name: ClassVar[str] = "open"
    title: ClassVar[str] = "Open"
    paper: ClassVar[str] = "made up"
    needs: ClassVar[frozenset[Need]] = frozenset({"public data"})


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(algorithms._KNOWN, "open", Open)
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    yield


def config(method: str, **settings: Any) -> RunConfig:
    settings = {"algorithm": method, "clients": 3, "partition": "iid", "models": "cnn-5", "device": "cpu"} | settings
    return make_config(settings)


def rows(shares: list[torch.Tensor]) -> set[int]:
    joined = torch.cat(shares).tolist()
    assert len(set(joined)) == len(joined)
    return set(joined)


@pytest.mark.usefixtures("registered")
def test_public_samples_are_nobodys_own() -> None:
    source = tiny.load()
    private = share_out(config("standalone", public=20), source)
    shared = share_out(config("open", public=20), source)
    assert private.public is None
    assert shared.public is not None
    assert len(shared.public) == 20
    public = set(shared.public.tolist())
    # They are taken from the training samples alone, and all the others are still dealt.
    assert rows(shared.clients["train"]) == rows(private.clients["train"]) - public
    assert public <= rows(private.clients["train"])
    for pool in ("validation", "test"):
        assert rows(shared.clients[pool]) == rows(private.clients[pool])
    again = share_out(config("open", public=20), source)
    assert again.public is not None
    assert torch.equal(again.public, shared.public)


@pytest.mark.usefixtures("registered")
def test_public_samples_reach_the_federation() -> None:
    federation = make_federation(config("open", public=7), None)
    public = federation.setting.public
    assert public is not None
    assert len(public) == 7
    assert public.whole_x is federation.clients[0].train.whole_x  # one source for all, nothing copied
    assert make_federation(config("standalone"), None).setting.public is None


@pytest.mark.usefixtures("registered")
def test_a_method_without_need_of_them_can_have_the_same_samples() -> None:
    source = tiny.load()
    alike, needing = (share_out(config(method, public=20, set_aside="public"), source) for method in ("fd", "open"))
    for pool, parts in needing.clients.items():
        assert all(torch.equal(*pair) for pair in zip(parts, alike.clients[pool], strict=True))
    assert config("open").set_aside == "public"
    assert make_federation(config("fd", public=20, set_aside="public"), None).setting.public is None


@pytest.mark.usefixtures("registered")
def test_more_public_samples_than_there_are() -> None:
    with pytest.raises(DataError, match=r"1,000 public samples cannot be set aside from 96 training samples: set 'pu"):
        make_federation(config("open"), None)  # the default is for data sets of a usual size
