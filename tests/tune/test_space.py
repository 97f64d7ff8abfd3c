"""Where a search looks."""

from __future__ import annotations

import pytest

from potluck import algorithms
from potluck.errors import ConfigError
from potluck.tune.space import Choice, Range, declared, parse_spaces


def test_what_methods_declare() -> None:
    assert declared("standalone", 0.01) == {}
    assert declared("fedprox", 0.01) == {"algorithm.mu": Range(0.0001, 10, log=True, whole=False)}
    found = declared("pfedes", 0.01)
    assert found["algorithm.mu"] == Range(0.01, 0.5, log=False, whole=False)
    assert found["algorithm.extractor_epochs"] == Range(2, 40, log=True, whole=True)
    assert found["algorithm.extractor_learning_rate"] == Range(0.001, 0.1, log=True, whole=False)
    assert "algorithm.training" not in found
    # Numbers in the words about a paper, such as those of data sets and figures, are no values.
    assert declared("fedproto", 0.01) == {"algorithm.pull": Range(0.01, 10, log=True, whole=False)}
    assert declared("fedgh", 0.01)["algorithm.header_learning_rate"] == Range(0.0001, 10, log=True, whole=False)


@pytest.mark.parametrize("method", algorithms.names())
def test_every_default_lies_in_its_range_and_both_ends_are_allowed(method: str) -> None:
    kind = algorithms.find(method)
    for key, space in declared(method, 0.01).items():
        name = key.removeprefix("algorithm.")
        default = kind.model_fields[name].default
        assert isinstance(space, Range)
        assert default is None or space.low <= default <= space.high
        for end in (space.low, space.high):
            field = {name: space.tidy(end)}
            kind.__pydantic_validator__.validate_assignment(kind.model_construct(), name, field[name])


def test_what_is_asked_for() -> None:
    assert parse_spaces(["a=0.1..0.5", "b=1..20", "c=1e-3..1e-1", "d= sgd , 3", "e=-1.5..2"]) == {
        "a": Range(0.1, 0.5, log=False, whole=False),
        "b": Range(1, 20, log=True, whole=True),
        "c": Range(0.001, 0.1, log=True, whole=False),
        "d": Choice(("sgd", 3)),
        "e": Range(-1.5, 2, log=False, whole=False),
    }


@pytest.mark.parametrize("text", ["", "a", "a=", "=1..2", "a=1,,2", "a=..", "a=x..y", "a=1..", "a=1..2..3"])
def test_what_is_no_space(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is neither key=low..high nor key=a,b,c"):
        parse_spaces([text])


@pytest.mark.parametrize("text", ["a=2..1", "a=1..1"])
def test_a_range_goes_upwards(text: str) -> None:
    with pytest.raises(ConfigError, match="a range goes upwards"):
        parse_spaces([text])


def test_a_space_is_given_once() -> None:
    with pytest.raises(ConfigError, match="is given twice"):
        parse_spaces(["a=1..2", "a=3,4"])


def test_tidy_values_stay_inside() -> None:
    space = Range(0.1234567, 0.5, log=False, whole=False)
    assert space.tidy(0.33333333) == 0.333
    assert space.tidy(0.1234567) == 0.1234567
