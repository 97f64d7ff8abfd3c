"""Every setting of a federation and of a run, in one place, validated."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from potluck import algorithms
from potluck.errors import ConfigError, nearest
from potluck.models.assign import Assignment
from potluck.settings import MOST, explain, flat, unknown
from potluck.training import Training

_MOST = 1 << 24
"""Bytes that a file of settings may have."""


class FederationConfig(Training):
    """How a federation runs, whatever its algorithm and data."""

    fraction: float = Field(1.0, gt=0, le=1, description="share of the clients that take part in a round (C)")
    seed: int = Field(0, ge=0, lt=2**63, description="the one seed of every random draw")
    engine: str = Field("auto", description="where clients execute: auto, loop or stacked")
    device: str = Field("auto", description="cpu, cuda, cuda:1 or auto; or several, as in cuda:0,cuda:1")
    precision: Literal["auto", "float32", "tf32", "bf16", "float64"] = Field(
        "auto", description="numbers to compute in: auto (tf32 on a GPU, else float32), float32, tf32, bf16 or float64"
    )
    evaluate_every: int = Field(10, ge=1, lt=2**31, description="rounds between evaluations of all clients")
    checkpoint_every: int = Field(10, ge=1, lt=2**31, description="rounds between checkpoints")
    early_stop: int | None = Field(
        None,
        ge=1,
        lt=2**31,
        description="stop after so many evaluations of all clients without a better validation accuracy; unset: never",
    )
    measure: Literal["gradient-norm"] | None = Field(
        None, description="what to record of every participant besides: gradient-norm (about one more epoch per round)"
    )


class RunConfig(FederationConfig):
    """A whole experiment: the same configuration gives the same numbers again."""

    version: Literal[1] = Field(1, description="version of this format")
    algorithm: dict[str, Any] = Field(description="name of the algorithm and its own settings")
    data: str = Field("fashion-mnist-10k", description="data set: a name, a folder of images, or an .npz file")
    data_dir: str | None = Field(None, description="folder in which data sets lie")
    split: str | None = Field(
        None, description="train, validation and test: release, official, 8:1:1, 8:2; the data set's own if unset"
    )
    public: int = Field(
        1000, ge=1, lt=2**31, description="training samples set aside for all to see, where the method needs them"
    )
    set_aside: Literal["public"] | None = Field(
        None,
        description="public: set public samples aside, as for a method that needs them, also where none does, so that "
        "clients train on the same samples under both",
    )
    partition: str = Field(
        "pathological:2",
        description="how clients share the data: pathological:K, dirichlet:GAMMA, balanced-dirichlet:ALPHA, "
        "two-classes or iid",
    )
    augmentation: str = Field(
        "release", description="release (flip, erase, crop), two-views (crop, flip, colours) or none"
    )
    clients: int = Field(10, ge=1, lt=2**31, description="number of clients (N)")
    models: str = Field("cnn-1..5", description="networks of the clients; cnn-1 where all must be equal")
    assignment: Assignment = Field("by-id", description="which client takes which network: by-id (in turn) or random")
    initial_weights: Literal["per-architecture", "per-client"] = Field(
        "per-architecture",
        description="clients with the same network start from the same weights, or each from its own",
    )
    rounds: int = Field(50, ge=1, le=MOST, description="communication rounds (T)")

    def method(self) -> algorithms.Algorithm:
        """The algorithm with its settings."""
        return algorithms.algorithm(self.algorithm["name"], {k: v for k, v in self.algorithm.items() if k != "name"})

    def complete(self) -> dict[str, Any]:
        """All settings, defaults included, as plain values: what ``config.toml`` holds."""
        settings = self.model_dump(mode="json")
        # TOML has no null, and a run without clipping must not get the default back when it is read again.
        settings["clip_norm"] = "none" if self.clip_norm is None else self.clip_norm
        method = self.method().model_dump(mode="json")
        settings["algorithm"] = {"name": self.algorithm["name"], **method}
        return {
            "version": settings.pop("version"),
            **{key: value for key, value in settings.items() if value is not None},
        }


def make_config(settings: Mapping[str, Any]) -> RunConfig:
    """Validate the settings of a run."""
    settings = merge(settings, {})
    try:
        config = RunConfig(**settings)
    except ValidationError as error:
        raise ConfigError(_own_key(settings) or explain(error, RunConfig)) from error
    if not isinstance(config.algorithm.get("name"), str):
        raise ConfigError(f"which algorithm? Give its name: {', '.join(algorithms.names())}.")
    kind = algorithms.find(config.algorithm["name"])
    update: dict[str, Any] = {"algorithm": {**config.algorithm, "name": kind.name}}
    config = config.model_copy(update=update)
    if "equal models" in config.method().needs and "models" not in settings:
        config = config.model_copy(update={"models": "cnn-1"})
    if "public data" in config.method().needs:
        config = config.model_copy(update={"set_aside": "public"})
    _refuse_unwritable(config.complete())
    return config


def _own_key(settings: Mapping[str, Any]) -> str | None:
    """What to say to a setting of the algorithm that is not under ``algorithm.``."""
    name = settings["algorithm"].get("name")
    if not isinstance(name, str) or name.lower() not in algorithms.names():
        return None
    for key in settings:
        if key not in RunConfig.model_fields and key in algorithms.find(name).model_fields:
            return f"unknown setting {key!r}: did you mean 'algorithm.{key}'? It is one of {name}'s own."
    for key in settings:
        if key not in RunConfig.model_fields:
            return unknown(key, RunConfig, algorithms.find(name), prefixes=["", "algorithm."])
    return None


def _refuse_unwritable(settings: Mapping[str, Any]) -> None:
    """Raise on what a run's files could not hold."""
    for key, value in flat(settings).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key}: {value} is not a finite number.")
        if isinstance(value, str) and "\0" in value:
            raise ConfigError(f"{key}: {value!r} holds a null character.")
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ConfigError(f"{key}: {value!r} is not valid UTF-8.") from error


def read_file(path: Path) -> dict[str, Any]:
    """The settings in a TOML file."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST + 1)  # a device would go on for ever
        if len(content) > _MOST:
            raise ConfigError(f"{path} is no file of settings: it has more than {_MOST:,} bytes.")
        text = content.decode().replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}.") from error
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of more digits than Python reads
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error


def parse_assignment(text: str) -> tuple[str, Any]:
    """A ``key=value`` of the command line; values are written as in TOML, and anything else is text.

    >>> parse_assignment("algorithm.mu=0.1"), parse_assignment("partition=pathological:2")
    (('algorithm.mu', 0.1), ('partition', 'pathological:2'))
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set {text!r} is not of the form key=value, for example --set epochs=10.")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return key, value.strip()


def merge(base: Mapping[str, Any], assignments: Mapping[str, Any]) -> dict[str, Any]:
    """Lay assignments over settings; ``algorithm.mu`` reaches into the table ``algorithm``.

    >>> merge({"algorithm": "pfedes"}, {"algorithm.mu": 0.3})
    {'algorithm': {'name': 'pfedes', 'mu': 0.3}}
    """
    merged = {**base, "algorithm": _table(base.get("algorithm", {}))}
    for key, value in assignments.items():
        head, dot, tail = key.partition(".")
        if key == "algorithm":
            merged["algorithm"] |= _table(value)
        elif key == "algorithm.name" and merged["algorithm"].get("name") not in (None, value):
            # Another algorithm: the settings of the one before are not its own.
            merged["algorithm"] = {"name": value}
        elif not dot:
            merged[key] = value
        elif head == "algorithm":
            merged["algorithm"][tail] = value
        else:
            raise ConfigError(nearest(key, RunConfig.model_fields, "setting"))
    return merged


def _table(algorithm: Any) -> dict[str, Any]:
    """An algorithm and its settings; its name alone will do."""
    if isinstance(algorithm, str):
        return {"name": algorithm}
    if not isinstance(algorithm, Mapping):
        raise ConfigError(
            f"algorithm: {algorithm!r} is neither the name of an algorithm nor a table with its settings."
        )
    return dict(algorithm)
