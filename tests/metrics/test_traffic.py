"""Bytes per client and round, against what the papers print."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from potluck.algorithms import algorithm
from potluck.algorithms.fedkd import FedKD
from potluck.errors import AlgorithmError, ConfigError
from potluck.metrics.traffic import Traffic, measure_traffic

KB = 1024


def measured(name: str, classes: int = 10, held: int = 2, models: str = "cnn-5", **settings: object) -> Traffic:
    return measure_traffic(algorithm(name, settings), [models], (3, 32, 32), classes, held)


@pytest.mark.parametrize(("classes", "held", "printed"), [(10, 2, 39.14), (100, 10, 391.41)])
def test_lg_fedavg_as_in_fedgh_table_3(classes: int, held: int, printed: float) -> None:
    found = measured("lg-fedavg", classes, held)
    assert (found.down, found.up) == (4 * 501 * classes,) * 2
    assert round((found.down + found.up) / KB, 2) == printed


@pytest.mark.parametrize(("classes", "held", "printed"), [(10, 2, 23.45), (100, 10, 214.88)])
def test_fedgh_as_in_its_table_3(classes: int, held: int, printed: float) -> None:
    """The table leaves the header's bias out, one number per class; ours travels with it."""
    found = measured("fedgh", classes, held)
    assert found.up == 4 * (held + held * 500)  # one label and one representation per class
    assert found.down == 4 * (500 + 1) * classes
    bias = 4 * classes
    # The paper cuts digits off: 23.445 KB is printed as 23.45, 214.879 as 214.88.
    assert (found.down + found.up - bias) / KB == pytest.approx(printed, abs=0.005)


def test_fedclassavg_as_in_its_table_5() -> None:
    """5,130 numbers for a representation of 512; the table's 22 KB is the size of a saved file."""
    found = measured("fedclassavg", models="resnet-18")
    assert (found.down, found.up) == (4 * 5130, 4 * 5130)
    assert found.encoded_up < 22 * KB


def test_pfedafm_sends_cnn_5_without_its_header() -> None:
    found = measured("pfedafm")
    assert (found.down, found.up) == (4 * 665_048, 4 * 665_048)


def test_pfedes_sends_its_extractor() -> None:
    assert measured("pfedes") == Traffic(1772, 1772, 2128, 2136)


def test_standalone_sends_nothing() -> None:
    assert measured("standalone") == Traffic(0, 0, 0, 0)


def test_more_classes_than_there_are() -> None:
    with pytest.raises(ConfigError, match="a client cannot hold 11 of 10 classes"):
        measured("fedgh", held=11)


class Forgetful(FedKD):
    """Sends nothing, or sends it nowhere."""

    name: ClassVar[str] = "forgetful"
    hook: str

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return (lambda *_: None) if name in _HOOKS and name == self.hook else found


_HOOKS = {
    "broadcast": "for client 0 in round 1",
    "receive": "for client 0",
    "receive_again": "for client 0",
    "upload": "for client 0 in round 1",
    "aggregate": "in round 1",
    "server_state": "failed",
    "networks": "failed",
}


@pytest.mark.parametrize("hook", _HOOKS)
def test_a_hook_that_fails_is_named(hook: str) -> None:
    with pytest.raises(AlgorithmError, match=rf"Forgetful\.{hook} {_HOOKS[hook]}"):
        measure_traffic(Forgetful(hook=hook), ["mlp-8"], (6,), 3, 2)


def test_fd_as_in_fedgh_table_3() -> None:
    """0.16 KB: outputs of two classes down and up; the table leaves out the labels that ours travel with."""
    found = measured("fd")
    labels = 2 * 4
    assert (found.down, found.up) == (4 * 2 * 10 + labels,) * 2
    assert round((found.down + found.up - 2 * labels) / KB, 2) == 0.16


@pytest.mark.parametrize(("classes", "held", "printed"), [(10, 2, 7.81), (100, 10, 39.06)])
def test_fedproto_as_in_fedgh_table_3(classes: int, held: int, printed: float) -> None:
    """The table leaves out the labels, and the numbers of samples behind a prototype, which are weights here."""
    found = measured("fedproto", classes, held)
    assert found.down == 4 * held * 500 + 4 * held
    assert found.up == 4 * held * 500 + 8 * held
    assert round(2 * 4 * held * 500 / KB, 2) == printed


def test_fedtgp_sends_every_prototype() -> None:
    found = measured("fedtgp", server_epochs=1)
    assert (found.down, found.up) == (4 * 5000 + 4 * 10, 4 * 1000 + 4 * 2)


@pytest.mark.parametrize("name", ["fml", "fedapen"])
@pytest.mark.parametrize(("classes", "numbers"), [(10, 670_058), (100, 715_148)])
def test_small_models_travel_whole(name: str, classes: int, numbers: int) -> None:
    found = measured(name, classes)
    assert (found.down, found.up) == (4 * numbers, 4 * numbers)


def test_fedkd_never_sends_more_than_the_whole_mentee() -> None:
    found = measured("fedkd")
    assert 0 < found.up <= 4 * 670_058
    assert 0 < found.down <= 4 * 670_058


def test_kt_pfl_sends_predictions_on_public_data() -> None:
    found = measure_traffic(algorithm("kt-pfl"), ["cnn-5"], (3, 32, 32), 10, 2, public=50)
    assert (found.down, found.up) == (4 * 50 * 10, 4 * 50 * 10)
