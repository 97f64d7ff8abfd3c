"""What a script may give wrongly: samples, models, clients and settings; each is refused, or taken as documented."""

from __future__ import annotations

import functools
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attack.judging import Case, Verdict, accepted, apart, refused
from attack.models import CLASSES, MODELS, TAKEN_MODELS, net, picture_net
from potluck import Algorithm, Client, Federation, open_run
from potluck.data.examples import Examples
from potluck.data.transform import Transform

Do = Callable[[], object]
Bad = dict[str, tuple[Callable[[], Any], str]]
"""What is given, how it is made, and a word that the message must have."""

X = torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % CLASSES
IMAGES = torch.rand(24, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def run(
    algorithm: Any = "standalone", model: Callable[[], Any] = net, x: Any = X, y: Any = Y, count: int = 2,
    test: Any = None, **settings: Any,
) -> Federation:  # fmt: skip
    """A federation of some clients, after a round."""
    torch.manual_seed(0)
    clients = [Client(model(), train=(x, y), test=(x, y) if test is None else test) for _ in range(count)]
    federation = Federation(algorithm, clients, **{"device": "cpu", "batch_size": 8, **settings})
    federation.run(1, watch=lambda _event: None)
    return federation


def _with(x: float) -> Tensor:
    """The inputs, with one number among them."""
    changed = X.clone()
    changed[3, 2] = x
    return changed


# ---- samples --------------------------------------------------------------------------------------------------------


class Frame:
    """An object that is an array to NumPy, and has other keys, as a frame of pandas."""

    def __init__(self, make: Callable[[], np.ndarray]) -> None:
        self.make = make

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        """Its numbers."""
        return self.make()

    def __getitem__(self, key: object) -> object:
        """It has none."""
        raise KeyError(key)


def _gone() -> np.ndarray:
    raise OSError("gone")


class _Dataset(torch.utils.data.Dataset):  # type: ignore[type-arg]  # not generic when it runs
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index], Y[index]

    def __len__(self) -> int:
        return len(X)


INPUTS: Bad = {
    "sparse": (X.to_sparse, "sparse_coo"),
    "of compressed rows": (X.to_sparse_csr, "sparse_csr"),
    "on the meta device": (lambda: X.to("meta"), "meta device"),
    "a single number": (lambda: torch.tensor(1.0), "single number"),
    "a number of Python": (lambda: 1.0, "single number"),
    "nested": (lambda: torch.nested.nested_tensor([*X]), "nested"),
    "quantised": (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), "quantised"),
    "complex": (lambda: X.to(torch.complex64), "complex"),
    "int64": ((X * 10).long, "int64"),
    "int64 beyond float32": (lambda: (X * 10).long() + 2**40, "int64"),
    "int32": ((X * 10).int, "int32"),
    "int8": (lambda: (X * 10).to(torch.int8), "int8"),
    "uint16": (lambda: X.abs().numpy().astype(np.uint16), "uint16"),
    "bool": (lambda: X > 0, "bool"),
    "rows of bytes": (lambda: (X * 10).abs().to(torch.uint8), "bytes"),
    "ids of words": (lambda: torch.randint(0, 1000, (24, 6)), "Ids of words"),
    "float64 beyond float32": (lambda: X.double() * 1e300, "too large for float32"),
    "one NaN": (lambda: _with(math.nan), "not finite"),
    "one infinity": (lambda: _with(math.inf), "not finite"),
    "an array with NaN": (lambda: _with(math.nan).numpy(), "not finite"),
    "masked": (lambda: np.ma.masked_less(X.numpy(), 0), "masked"),
    "text": (lambda: "data", "numbers"),
    "a list of text": (lambda: ["a"] * 24, "numbers"),
    "bytes": (lambda: b"data", "numbers"),
    "objects": (lambda: np.array([object()] * 24), "numbers"),
    "a record array": (lambda: np.zeros(24, dtype=[("a", "f4")]), "numbers"),
    "dates": (lambda: np.zeros((24, 6), dtype="datetime64[s]"), "numbers"),
    "text in an array": (lambda: np.full((24, 6), "a"), "numbers"),
    "ragged": (lambda: [[1.0], [1.0, 2.0]], "numbers"),
    "a generator": (lambda: (row for row in X), "numbers"),
    "a dict": (lambda: {"a": X}, "numbers"),
    "None": (lambda: None, "numbers"),
    "a frame with text": (lambda: Frame(lambda: np.array([["a", 1]] * 24, dtype=object)), "other than numbers"),
    "an array that cannot be made": (lambda: Frame(_gone), "cannot be made an array"),
    "fewer than labels": (lambda: X[:20], "20 inputs come with 24 labels"),
    "more than labels": (lambda: torch.cat([X, X]), "48 inputs come with 24 labels"),
    "none": (lambda: X[:0], "0 inputs come with 24 labels"),
    "of another width": (lambda: X[:, :5], "does not run"),
    "of more dimensions": (lambda: X[:, None, None], "vector per input"),
    "without a dimension of features": (lambda: X[:, 0], "does not run"),
    "numbers of 400 digits": (lambda: [[10**400] * 6] * 24, "numbers"),
}
LABELS: Bad = {
    "bool": (lambda: Y > 0, "true and false"),
    "float": (Y.double, "whole numbers"),
    "float32": (Y.float, "whole numbers"),
    "complex": (lambda: Y.to(torch.complex64), "whole numbers"),
    "one-hot": (torch.eye(CLASSES)[Y].long, "vector of whole numbers"),
    "a column": (lambda: Y[:, None], "vector of whole numbers"),
    "from 1": (lambda: Y + 1, "labels count from 0"),
    "-1 for unknown": (lambda: torch.where(Y == 2, -1, Y), "labels count from 0"),
    "far out": (lambda: Y + 2**40, "labels count from 0"),
    "uint64 far out": (lambda: np.full(24, 2**64 - 1, dtype=np.uint64), "labels count from 0"),
    "text": (lambda: ["a", "b", "c"] * 8, "numbers"),
    "None": (lambda: None, "numbers"),
    "None among them": (lambda: [None, 1, 2] * 8, "numbers"),
    "a single number": (lambda: torch.tensor(1), "single number"),
    "sparse": (Y.to_sparse, "sparse"),
    "on the meta device": (lambda: Y.to("meta"), "meta device"),
    "nested": (lambda: torch.nested.nested_tensor([Y, Y]), "nested"),
    "fewer than inputs": (lambda: Y[:5], "24 inputs come with 5 labels"),
    "none": (lambda: Y[:0], "24 inputs come with 0 labels"),
    "masked": (lambda: np.ma.masked_equal(Y.numpy(), 1), "masked"),
    "NaN": (lambda: np.full(24, np.nan), "whole numbers"),
    "beyond int64": (lambda: [2**70] * 24, "numbers"),
}
PAIRS: Bad = {
    "inputs alone": (lambda: X, "pair"),
    "a triple": (lambda: (X, Y, Y), "pair"),
    "None": (lambda: None, "no training samples"),
    "text": (lambda: "mnist", "pair"),
    "a number": (lambda: 3, "pair"),
    "a dict": (lambda: {"x": X, "y": Y}, "pair"),
    "a data set of PyTorch": (_Dataset, "pair"),
    "a loader": (lambda: torch.utils.data.DataLoader(_Dataset()), "pair"),
    "an empty tuple": (lambda: (), "pair"),
    "a function": (lambda: lambda: (X, Y), "pair"),
    "a set": (lambda: {1, 2}, "pair"),
    "no samples": (lambda: (X[:0], Y[:0]), "no training samples"),
    "labels first": (lambda: (Y, X), "vector of whole numbers"),
    "rows that are not there": (lambda: Examples(X, Y, torch.tensor([999])), "rows"),
    "rows counted from the end": (lambda: Examples(X, Y, torch.tensor([-1])), "rows"),
    "rows that are no whole numbers": (lambda: Examples(X, Y, torch.tensor([0.5])), "rows"),
}
POOLS: Bad = {
    "of another shape": (lambda: (X[:, :5], Y), "test inputs of shape"),
    "with NaN": (lambda: (_with(math.nan), Y), "not finite"),
    "of int64": (lambda: (X.long(), Y), "int64"),
    "with a class more": (lambda: (X, Y + 1), "labels count from 0"),
    "sparse": (lambda: (X.to_sparse(), Y), "sparse"),
    "complex": (lambda: (X.to(torch.complex64), Y), "complex"),
}

# ---- federations ----------------------------------------------------------------------------------------------------


def _client() -> Client:
    return Client(net(), train=(X, Y), test=(X, Y))


def _twice() -> list[Client]:
    one = _client()
    return [one, one]


CLIENTS: Bad = {
    "None": (lambda: None, "clients"),
    "text": (lambda: "abc", "clients"),
    "a number": (lambda: 3, "clients"),
    "tuples": (lambda: [(X, Y)], "potluck.Client"),
    "models": (lambda: [net()], "potluck.Client"),
    "a dict": (lambda: {"a": _client()}, "list(clients.values())"),
    "a set": (lambda: {_client()}, "list"),
    "a generator": (lambda: (_client() for _ in range(2)), "list"),
    "one alone": (_client, "list"),
    "none": (list, "at least one client"),
    "the same twice": (_twice, "given twice"),
    "the class": (lambda: Client, "clients"),
    "the class in a list": (lambda: [Client], "potluck.Client"),
    "None in a list": (lambda: [_client(), None], "number 1"),
    "a list in a list": (lambda: [[_client()]], "number 0"),
    "of other shapes": (lambda: [_client(), Client(picture_net(), (IMAGES, Y))], "client 1"),
    "of other outputs": (lambda: [_client(), Client(net(4), (X, Y))], "outputs"),
}
_PUBLIC = {"algorithm": "kt-pfl"}
ARGUMENTS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "algorithm": [
        ({"algorithm": value}, says)
        for value, says in (
            (None, "algorithm"), (3, "algorithm"), (len, "algorithm"), (int, "algorithm"), (["fedavg"], "algorithm"),
            (Algorithm, "no name"), ("fedvag", "fedavg"), ("", "algorithm"), (b"fedavg", "algorithm"),
        )
    ],
    "transform": [
        ({"transform": value}, says)
        for value, says in (
            (len, "transform"), ("release", "transform"), (Transform, "transform"), (nn.Identity(), "transform"),
            (Transform(augmentation="release"), "augmentation"), (Transform(mean=(0.5,), std=(0.5,)), "normalised"),
        )
    ],
    "out": [({"out": value}, "out") for value in (5, "a\0b", "", b"a", ["a"], True, 0.5)],
    "public": [
        ({**_PUBLIC, **more}, says)
        for more, says in (
            ({}, "public"), ({"public": 3}, "pair"), ({"public": (X[:, :5], Y)}, "public"),
            ({"public": (_with(math.nan), Y)}, "public inputs"), ({"public": (_with(math.inf), Y)}, "public inputs"),
            ({"public": (X.long(), Y)}, "public inputs"), ({"public": (X, Y + 1)}, "public"),
            ({"public": (X[:0], Y[:0])}, "public"), ({"public": (X.to_sparse(), Y)}, "sparse"),
        )
    ],
    "a word for another": [
        ({"epoch": 3}, "epochs"), ({"algorithm": "fedproto", "lamda": 1}, "pull"), ({"lr": 0.1}, "lr"),
        ({"algorithm": "fml", "x": torch.randint(0, 99, (24, 6))}, "Ids of words"), ({"config": 3}, "config"),
        ({"learning_rate": 1e300}, "not finite"), ({"early_stop": 2}, "validation"), ({"fraction": 0.001}, "nobody"),
    ],
}  # fmt: skip
_NONE: tuple[Any, ...] = (None, True, [1], {"a": 1}, len, torch.ones(3), np.ones(2), b"one", "nonsense", object())
SETTINGS: dict[str, tuple[Any, ...]] = {
    "seed": (*_NONE, -1, 2**63, 0.5, math.nan, math.inf, 10**30),
    "fraction": (*_NONE, 0, -0.5, 1.01, math.nan, math.inf, -math.inf, 10**30),
    "epochs": (*_NONE, 0, -1, 1.5, math.nan, math.inf, 10**30, 10**400),
    "batch_size": (*_NONE, 0, -1, 1.5, math.nan, 10**30),
    "learning_rate": (*_NONE, 0, -1, math.nan, math.inf, 10**400),
    "momentum": (*_NONE, 1, -0.1, math.nan, math.inf),
    "weight_decay": (*_NONE, -1, math.nan, math.inf),
    "clip_norm": (*_NONE[1:], 0, -1, math.nan, math.inf),
    "betas": (*_NONE, (0.9,), (0.9, 1.0), (True, 0.9), (math.nan, 0.9), "ab"),
    "optimizer": (*_NONE, 3, torch.optim.SGD, "SGD"),
    "schedule": (*_NONE, 3, "cosine:3", "step:0:1", "exponential:nan", "exponential:-1", "step:10"),
    "engine": (*_NONE, 3, "", "Loop"),
    "device": (*_NONE, 3, "", "gpu", torch.device("cpu"), "cpu,cuda"),
    "precision": (*_NONE, 3, "", "float16", torch.float64),
    "evaluate_every": (*_NONE, 0, -1, 1.5, 10**30),
    "checkpoint_every": (*_NONE, 0, -1, 1.5, 10**30),
    "early_stop": (*_NONE[1:], 0, -1, 1.5, 10**30),
    "measure": (*_NONE[1:], 3, "", "norm"),
}
"""Values that each setting refuses; None is one only where it does not stand for the default."""
LATER: dict[str, tuple[Callable[[Federation], object], str]] = {
    **{
        f"rounds {number}": (functools.partial(lambda rounds, f: f.run(rounds), value), "rounds")
        for number, value in enumerate((0, -1, True, 1.5, "3", None, 10**30, math.nan, [3], torch.ones(1)))
    },
    **{
        f"watch {number}": (functools.partial(lambda watch, f: f.run(3, watch=watch), value), "watch")
        for number, value in enumerate((5, "x", [5], object()))
    },
    **{
        f"client {number}": (functools.partial(lambda client, f: f.predict(client, X), value), "client")
        for number, value in enumerate((99, -1, True, 0.0, None, "0", [0], torch.tensor(0), 10**30))
    },
    "another client": (lambda f: f.predict(_client(), X), "not one of"),
    "predict NaN": (lambda f: f.predict(0, _with(math.nan)), "not finite"),
    "predict infinity": (lambda f: f.logits(0, _with(-math.inf)), "not finite"),
    "predict one row": (lambda f: f.predict(0, X[0]), "give a batch"),
    "predict another width": (lambda f: f.predict(0, X[:, :5]), "shape"),
    "predict text": (lambda f: f.predict(0, "x"), "numbers"),  # type: ignore[arg-type]  # wrong on purpose
    "predict a number": (lambda f: f.predict(0, torch.tensor(1.0)), "single number"),
    "predict sparse": (lambda f: f.predict(0, X.to_sparse()), "sparse"),
    "predict complex": (lambda f: f.predict(0, X.to(torch.complex64)), "complex"),
    "predict int64": (lambda f: f.predict(0, X.long()), "int64"),
    "predict on the meta device": (lambda f: f.predict(0, X.to("meta")), "meta"),
    "predict rows of bytes": (lambda f: f.predict(0, X.to(torch.uint8)), "bytes"),
    "networks of client 99": (lambda f: f.networks(99), "no client 99"),
    "restore without a folder": (lambda f: f.restore(), "out"),
    "open a run that is not there": (lambda _: open_run("/nowhere/at/all"), "no run"),
}

# ---- taken ----------------------------------------------------------------------------------------------------------


def _same(**arguments: Callable[[], Any]) -> Do:
    """A run that gives the same numbers as the usual one."""

    def do() -> None:
        ours, theirs = run(**{name: make() for name, make in arguments.items()}), run()
        assert ours.summary["all_last"] == theirs.summary["all_last"]
        assert torch.allclose(ours.logits(0, X), theirs.logits(0, X), atol=1e-5)

    return do


def _divided() -> None:
    coded = (IMAGES * 255).to(torch.uint8)
    first, second = (run(model=picture_net, x=x) for x in (coded, coded.float() / 255))
    assert torch.allclose(first.logits(0, coded), second.logits(0, coded.float() / 255), atol=1e-6)


def _many_classes() -> None:
    assert run(model=lambda: net(20_000)).logits(0, X).shape == (24, 20_000)


def _appended() -> None:
    assert isinstance(run().clients, tuple)


def _one_object() -> None:
    one = net()
    Federation("fedavg", [Client(one, (X, Y)) for _ in range(2)], device="cpu").run(1, watch=lambda _event: None)


TAKEN: dict[str, Do] = {
    "arrays": _same(x=X.numpy, y=Y.numpy),
    "lists": _same(x=X.tolist, y=Y.tolist),
    "anything that NumPy takes": _same(x=lambda: Frame(X.double().numpy), y=lambda: Frame(Y.numpy)),
    "float64": _same(x=X.double),
    "labels of uint8": _same(y=lambda: Y.to(torch.uint8)),
    "labels of uint16": _same(y=lambda: Y.numpy().astype(np.uint16)),
    "labels of uint64": _same(y=lambda: Y.numpy().astype(np.uint64)),
    "labels of int8": _same(y=lambda: Y.to(torch.int8)),
    "inputs with a gradient": _same(x=lambda: X.clone().requires_grad_()),
    "parameters as inputs": _same(x=lambda: nn.Parameter(X.clone())),
    "inputs that lie transposed": _same(x=lambda: X.T.contiguous().T),
    "a negative stride": _same(x=lambda: X.flip(0).numpy()[::-1]),
    "a mask without masked numbers": _same(x=lambda: np.ma.array(X.numpy())),
    "a seed of NumPy": _same(seed=lambda: np.int64(0)),
    "digits as text": _same(seed=lambda: "0"),
    "a whole number with a point": _same(epochs=lambda: 1.0),
    "bytes of images are divided by 255": _divided,
    "20,000 classes": _many_classes,
    "clients are a tuple": _appended,
    "one model for several clients": _one_object,
    "one client": lambda: run(count=1),
    "one sample each": lambda: run(x=X[:1], y=Y[:1]),
    "no test samples": lambda: run(test=(X[:0], Y[:0])),
    "predict nothing": lambda: run().predict(0, X[:0]),
    **{what: functools.partial(run, algorithm="fedavg", model=make) for what, make in TAKEN_MODELS.items()},
}

# ---- cases ----------------------------------------------------------------------------------------------------------


def _there(folder: Path, do: Do) -> Do:
    def there() -> None:
        os.chdir(folder)
        warnings.simplefilter("ignore")
        # A note says which networks the stacked engine leaves to the other one; then that one says what is wrong.
        logging.disable(logging.WARNING)
        do()

    return there


def _refused(do: Do, *says: str) -> Callable[[Path], Verdict]:
    return lambda folder: refused(apart(_there(folder, do), timeout=30), *says)


def _accepted(do: Do) -> Callable[[Path], Verdict]:
    return lambda folder: accepted(apart(_there(folder, do)))


def _made(name: str, make: Callable[[], Any]) -> Do:
    return lambda: run(**{name: make()})


def _of_samples(make: Callable[[], Any]) -> None:
    Federation("standalone", [Client(net(), make())], device="cpu")


def _of_clients(make: Callable[[], Any]) -> None:
    Federation("standalone", make(), device="cpu")


def _after_a_round(act: Callable[[Federation], object]) -> None:
    act(run())


def _all() -> Iterator[tuple[str, str, Do, str]]:
    for group, name, table in (("inputs", "x", INPUTS), ("labels", "y", LABELS), ("test samples", "test", POOLS)):
        for what, (make, says) in table.items():
            yield group, what, _made(name, make), says
    for what, (make, says) in PAIRS.items():
        yield "samples", what, functools.partial(_of_samples, make), says
    for what, (make, says) in MODELS.items():
        for engine in ("loop", "stacked"):
            yield "models", f"{what}, {engine}", functools.partial(run, model=make, engine=engine), says
    for what, (make, says) in CLIENTS.items():
        yield "clients", what, functools.partial(_of_clients, make), says
    for what, variants in ARGUMENTS.items():
        for number, (arguments, says) in enumerate(variants):
            yield "arguments", f"{what} {number}", functools.partial(run, **arguments), says
    for what, values in SETTINGS.items():
        for number, value in enumerate(values):
            yield "settings in Python", f"{what} {number}", functools.partial(run, **{what: value}), what
    for what, (act, says) in LATER.items():
        yield "methods of a federation", what, functools.partial(_after_a_round, act), says


def cases() -> list[Case]:
    """Those of this module."""
    found = [Case(group, name, _refused(do, says)) for group, name, do, says in _all()]
    return found + [Case("taken as documented", name, _accepted(do)) for name, do in TAKEN.items()]
