"""Runs that are to go on with other data or models than they began with, by command line and from Python."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import potluck
from attack import runs
from attack.judging import HELD, Case, Verdict, accepted, apart, command, first_fault, refused
from attack.material import arrays, write_data
from potluck import Client, Federation
from potluck.data.transform import Transform

Arrays = dict[str, np.ndarray]

# ---- by command line ------------------------------------------------------------------------------------------------


def _labels(images: Arrays) -> Arrays:
    y = images["y"].copy()
    y[:10] = (y[:10] + 1) % 4
    return {**images, "y": y}


def _pixel(images: Arrays) -> Arrays:
    x = images["x"].copy()
    x[7, 3, 3] ^= 1
    return {**images, "x": x}


DATA: dict[str, Callable[[Arrays], Arrays]] = {
    "pixels inverted": lambda images: {**images, "x": 255 - images["x"]},
    "one pixel": _pixel,
    "ten labels": _labels,
    "two labels swapped": lambda images: {**images, "y": np.concatenate([images["y"][1::-1], images["y"][2:]])},
    "fewer images": lambda images: {name: each[:-4] for name, each in images.items()},
    "more images": lambda images: {name: np.concatenate([each, each[:4]]) for name, each in images.items()},
    "another order": lambda images: {name: each[::-1] for name, each in images.items()},
    "other images of the same labels": lambda images: {**images, "x": arrays(1, runs.SAMPLES)["x"]},
    "larger images": lambda images: {**images, "x": images["x"].repeat(2, axis=1).repeat(2, axis=2)},
    "a class less": lambda images: {**images, "y": images["y"] % 3},
    "a class more": lambda images: {**images, "y": np.where(np.arange(len(images["y"])) == 0, 4, images["y"])},
    "labels of text in another order": lambda images: {**images, "y": np.array(list("dbca"))[images["y"]]},
}


def _command(change: Callable[[Arrays], Arrays] | None, method: str, folder: Path) -> Verdict:
    run, file = folder / "run", folder / "images.npz"
    images = arrays(0, runs.SAMPLES)
    write_data(file, images)
    given = [file if str(flag).endswith(".npz") else flag for flag in runs.flags(method)]
    ran = command("run", *given, "--out", run, first=lambda: runs.after_round(3, runs.end_at_once))
    if ran.code != 137:
        return Verdict("broken", ran.err)
    if change is None:
        write_data(file, images)  # the same images in a file of another time are the same data
        ran = command("resume", run)
        return first_fault(accepted(ran), _equal(run, runs.whole(method)))
    write_data(file, change(images))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    verdict = refused(command("resume", run))
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    return first_fault(verdict, HELD if before == after else Verdict("harmed", "refused, and changed the run"))


def _equal(run: Path, expected: Path) -> Verdict:
    """The same but for where the data lie, which the summary says."""
    mine, theirs = runs.result(run), runs.result(expected)
    same = all(mine[name] == theirs[name] for name in ("rounds.jsonl", "clients.jsonl"))
    return HELD if same else Verdict("silent", "another result")


# ---- from Python ----------------------------------------------------------------------------------------------------


@dataclass
class Given:
    """What a federation is made of."""

    pools: list[dict[str, tuple[Tensor, Tensor]]]
    nets: list[nn.Module]
    public: tuple[Tensor, Tensor]
    settings: dict[str, Any] = field(default_factory=dict)


def _given() -> Given:
    draws = torch.Generator().manual_seed(0)
    pools: list[dict[str, tuple[Tensor, Tensor]]] = []
    nets: list[nn.Module] = []
    for number in range(3):
        names = ("train", "validation", "test")
        pools.append({name: (torch.randn(9, 5, generator=draws), torch.arange(9) % 3) for name in names})
        with potluck.draws.initial_weights(number):
            nets.append(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)))
    return Given(pools, nets, (torch.randn(6, 5, generator=draws), torch.arange(6) % 3))


def _made(given: Given, path: Path) -> Federation:
    clients = [Client(net, **pools) for net, pools in zip(given.nets, given.pools, strict=True)]
    return Federation(
        "kt-pfl", clients, out=path, public=given.public, device="cpu", checkpoint_every=1, **given.settings
    )


def _inputs(name: str) -> Callable[[Given], object]:
    def change(given: Given) -> None:
        x, y = given.pools[1][name]
        x = x.clone()
        x[4, 2] += 1e-6
        given.pools[1][name] = x, y

    return change


def _other_labels(name: str) -> Callable[[Given], object]:
    def change(given: Given) -> None:
        x, y = given.pools[1][name]
        given.pools[1][name] = x, y.flip(0)

    return change


def _fewer(name: str) -> Callable[[Given], object]:
    def change(given: Given) -> None:
        x, y = given.pools[1][name]
        given.pools[1][name] = x[:-1], y[:-1]

    return change


def _net(make: Callable[[], nn.Module], key: int = 1) -> Callable[[Given], object]:
    def change(given: Given) -> None:
        with potluck.draws.initial_weights(key):
            given.nets[1] = make()

    return change


@torch.no_grad()
def _weight(given: Given) -> None:
    next(given.nets[1].parameters())[0, 0] += 1e-6


def _swapped(given: Given) -> None:
    given.pools[0], given.pools[1] = given.pools[1], given.pools[0]


def _order(given: Given) -> None:
    given.pools.reverse()
    given.nets.reverse()


def _fewer_clients(given: Given) -> None:
    given.pools.pop()
    given.nets.pop()


def _more_clients(given: Given) -> None:
    given.pools.append(given.pools[0])
    given.nets.append(given.nets[0])


def _set(**settings: Any) -> Callable[[Given], object]:
    return lambda given: given.settings.update(settings)


PYTHON: dict[str, Callable[[Given], object]] = {
    **{f"{name} inputs": _inputs(name) for name in ("train", "validation", "test")},
    **{f"{name} labels": _other_labels(name) for name in ("train", "validation", "test")},
    **{f"a {name} sample less": _fewer(name) for name in ("train", "validation", "test")},
    "no validation": lambda given: given.pools[1].pop("validation"),
    "public inputs": lambda given: setattr(given, "public", (given.public[0] + 1, given.public[1])),
    "public labels": lambda given: setattr(given, "public", (given.public[0], given.public[1].flip(0))),
    "a public sample less": lambda given: setattr(given, "public", (given.public[0][1:], given.public[1][1:])),
    "one initial weight": _weight,
    "other initial weights": _net(lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), 99),
    "another width": _net(lambda: nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))),
    "another activation": _net(lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))),
    "a layer more": _net(lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Identity(), nn.Linear(4, 3))),
    "clients in another order": _order,
    "samples of two clients swapped": _swapped,
    "a client less": _fewer_clients,
    "a client more": _more_clients,
    "another seed": _set(seed=1),
    "another learning rate": _set(learning_rate=0.5),
    "another preparation of inputs": _set(transform=Transform((0.5,), (2.0,))),
    "double precision": _set(precision="float64"),
}


def _python(change: Callable[[Given], object] | None, to_read: bool, folder: Path) -> Verdict:
    path = folder / "run"

    def stop() -> None:
        runs.after_round(3, runs.end_at_once)
        _made(_given(), path).run(5)

    if (ran := apart(stop)).code != 137:
        return Verdict("broken", ran.err)
    before = {path: path.read_bytes() for path in path.rglob("*") if path.is_file()}

    def go_on() -> None:
        given = _given()
        if change is not None:
            change(given)
        federation = _made(given, path)
        federation.restore(to_read=to_read)
        if not to_read:
            federation.run(5)

    ran = apart(go_on)
    if change is None:
        return accepted(ran)
    verdict = refused(ran)
    after = {path: path.read_bytes() for path in path.rglob("*") if path.is_file()}
    return first_fault(verdict, HELD if before == after else Verdict("harmed", "refused, and changed the run"))


def _missing(make: Callable[[Path], object], folder: Path) -> Verdict:
    """The data file is something else."""
    run, file = folder / "run", folder / "images.npz"
    write_data(file, arrays(0, runs.SAMPLES))
    given = [file if str(flag).endswith(".npz") else flag for flag in runs.flags()]
    command("run", *given, "--out", run, first=lambda: runs.after_round(3, runs.end_at_once))
    file.unlink()
    make(file)
    return refused(command("resume", run))


MISSING: dict[str, Callable[[Path], object]] = {
    "no file": Path.exists,
    "an empty file": lambda path: path.touch(),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 9),
}


def cases() -> list[Case]:
    """Those of this module."""
    data = "other data by command line"
    python = "other data and models from Python"
    methods = ("pfedes", "kt-pfl")
    commands = [
        Case(data, f"{method}: {name}", functools.partial(_command, change, method))
        for method in methods
        for name, change in {**DATA, "the same": None}.items()
    ]
    missing = [Case(data, name, functools.partial(_missing, make)) for name, make in MISSING.items()]
    restores = [
        Case(python, f"{'open: ' if to_read else ''}{name}", functools.partial(_python, change, to_read))
        for name, change in {**PYTHON, "the same": None}.items()
        for to_read in (False, True)
    ]
    return commands + missing + restores
