"""FedClassAvg's switches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from potluck.algorithms import algorithm
from potluck.contract import Round
from potluck.errors import ConfigError

from .test_special_cases import QUIET, client, federation


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"averaging": False},
            "^algorithm: without averaging there is no received classifier to stay near: set rho to 0 as well",
        ),
        ({"averaging": False, "rho": 0, "share": "all"}, "share is all, and averaging is off"),
        ({"rho": -1}, "algorithm.rho: -1 "),
        ({"contrast": "on"}, "algorithm.contrast: 'on' is not 'normalised', 'release' or 'off'"),
    ],
)
def test_settings_that_contradict(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        algorithm("fedclassavg", settings)


def test_what_travels() -> None:
    assert algorithm("fedclassavg").shared == ("head",)
    assert algorithm("fedclassavg", {"share": "all"}).shared == ("body", "head")
    assert algorithm("fedclassavg", {"averaging": False, "rho": 0}).shared == ()
    assert algorithm("fedclassavg").needs == {"equal width"}
    assert algorithm("fedclassavg", {"share": "all"}).needs == {"equal models"}
    assert not algorithm("fedclassavg", {"averaging": False, "rho": 0}).needs


def test_one_view_is_enough_without_contrast() -> None:
    views = [algorithm("fedclassavg", {"contrast": kind}).phases(Round(1, 1))[0].views for kind in ("off", "release")]
    assert views == [1, 2]


def test_without_its_three_parts_it_is_local_training() -> None:
    plain = {"averaging": False, "rho": 0.0, "contrast": "off"}
    runs = [
        federation(name, [client(8, [0, 1]), client(8, [1, 2], representation=7)], **settings)
        for name, settings in (("fedclassavg", plain), ("standalone", {}))
    ]
    for run in runs:
        run.run(2, **QUIET)
    for number in range(2):
        weights, others = (run.networks(number)["body"].state_dict() for run in runs)
        assert all(torch.equal(weights[path], others[path]) for path in weights)
