"""Bytes per client and round, against what the papers print."""

from __future__ import annotations

import pytest

from potluck.algorithms import algorithm
from potluck.errors import ConfigError
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
    assert measured("pfedes") == Traffic(1772, 1772, 2140, 2156)


def test_standalone_sends_nothing() -> None:
    assert measured("standalone") == Traffic(0, 0, 0, 0)


def test_more_classes_than_there_are() -> None:
    with pytest.raises(ConfigError, match="a client cannot hold 11 of 10 classes"):
        measured("fedgh", held=11)
