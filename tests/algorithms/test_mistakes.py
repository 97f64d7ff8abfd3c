"""Mistakes in a custom method: each ends in one message that says where."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest
import torch
from torch import nn

from potluck import Algorithm, Batch, Client, Federation, Networks, Payload, Phase
from potluck.algorithms import register, setting
from potluck.algorithms.pfedes import PFedES
from potluck.errors import AlgorithmError, ConfigError, ModelError, PotluckError
from potluck.testing import check_algorithm
from potluck.testing.conformance import ConformanceError


class Plain(Algorithm):
    """Averages heads."""

    name: ClassVar[str] = "plain"
    shared: ClassVar[tuple[str, ...]] = ("head",)


def made(**changes: Any) -> type[Algorithm]:
    """That method, with something changed."""
    changes = {"__module__": __name__, "__qualname__": "Mine", **changes}
    return cast(type[Algorithm], types.new_class("Mine", (Plain,), exec_body=lambda space: space.update(changes)))


def run(kind: type[Algorithm], engine: str, **settings: Any) -> None:
    clients = []
    for number in range(2):
        torch.manual_seed(number)
        data = torch.randn(6, 3), torch.arange(6) % 2
        clients.append(Client(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), data, data))
    federation = Federation(kind, clients, device="cpu", engine=engine, batch_size=4, **settings)
    federation.run(1, watch=lambda _: None)


def loss(function: Callable[[Networks, Batch, Any], Any]) -> dict[str, Any]:
    def mine(self: Algorithm, net: Networks, batch: Batch, received: Any) -> Any:
        return function(net, batch, received)

    return {"cross_entropy": mine}


def hook(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    return {name: lambda _self, *given: function(*given)}


LOSS = r"Mine\.mine \(the loss of phase 0\) for client 0 in round 1"
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a misspelt network": (loss(lambda net, b, _r: b.cross_entropy(net.haed(b.x))), f"{LOSS} .*no network 'haed'"),
    "misspelt weights": (loss(lambda net, _b, _r: net.parameters("haed")), f"{LOSS}: no network 'haed'"),
    "no scalar": (loss(lambda net, b, _r: net(b.x).sum(1)), rf"{LOSS} .*one number, and this one has the shape \(4,\)"),
    "no loss": (loss(lambda _net, _b, _r: None), f"{LOSS} .*it gives None"),
    "a number": (loss(lambda _net, _b, _r: 0.5), f"{LOSS} .*it gives a float"),
    "no gradient": (loss(lambda _net, _b, _r: torch.tensor(0.5)), f"{LOSS} .*no weight that learns has a part"),
    "whole numbers": (loss(lambda net, b, _r: net(b.x).argmax()), f"{LOSS} .*torch.int64"),
    "raises": (loss(lambda _net, _b, r: r["haed"]), f"{LOSS} failed: KeyError: 'haed'"),
    "no phases": (hook("phases", lambda _round: None), r"Mine\.phases in round 1 .*not a tuple of Phase"),
    "phases of letters": (
        hook("phases", lambda _round: (Phase(train="head", loss=max),)), "several networks"  # type: ignore[arg-type]
    ),
    "data that is not there": (
        hook("phases", lambda _round: (Phase(train=("head",), loss=max, data="trian"),)),  # type: ignore[arg-type]
        "called 'trian'",
    ),
    "no upload": (hook("upload", lambda *_: None), r"Mine\.upload for client 0 in round 1 .*not a Payload"),
    "an upload of a misspelt network": (
        hook("upload", lambda net, *_: Payload(net.travelling("haed"))), r"Mine\.upload for client 0 .*'haed'",
    ),
    "nothing received": (hook("receive", lambda *_: None), r"Mine\.receive for client 0"),
    "no prediction": (hook("predict", lambda *_: None), r"Mine\.predict for client 0 .*not a Tensor"),
    "a prediction of another shape": (
        hook("predict", lambda net, x, _r: net(x)[:, :1]), r"Mine\.predict for client 0 .*shape \(6, 1\)",
    ),
    "no broadcast": (hook("broadcast", lambda *_: None), r"Mine\.broadcast for client 0 in round 1"),
    "no aggregate": (hook("aggregate", lambda *_: None), r"Mine\.aggregate in round 1 .*None"),
    "a sparse state": (
        hook("aggregate", lambda state, *_: {name: tensor.to_sparse() for name, tensor in state.items()}),
        r"Mine\.aggregate in round 1 failed: TypeError: tensor 'head.weight' is of the layout sparse_coo",
    ),
    "a state of another type": (
        hook("aggregate", lambda state, *_: {name: tensor.double() for name, tensor in state.items()}),
        r"Mine\.aggregate in round 1 failed: TypeError: it changes 'head.weight' from torch.float32 to torch.float64",
    ),
    "a check that raises": (hook("check", lambda *_: 1 / 0), r"Mine\.check for client 0 failed: ZeroDivisionError"),
    "no state": (hook("server_state", lambda *_: None), r"Mine\.server_state failed"),
    "networks that raise": (hook("networks", lambda *_: {"a": 1}["x"]), "failed: KeyError: 'x'"),
    "an observation of nothing": (hook("observe", lambda *_: None), r"Mine\.observe for client 0 in round 1"),
    "an observation in words": (
        hook("observe", lambda _state: {"a": "some"}), r"Mine\.observe for client 0 in round 1 failed: ValueError",
    ),
    "an observation of many numbers": (
        hook("observe", lambda _state: {"a": torch.ones(2)}), r"Mine\.observe for client 0 in round 1 failed",
    ),
    "an observation without a name": (
        hook("observe", lambda _state: {1: 0.5}), r"Mine\.observe for client 0 in round 1 .*an int, and not a str",
    ),
    "a statistic that raises": (
        {"collects": "train", **hook("collect", lambda *_: {"a": 1}["x"])},
        r"Mine\.collect for client 0 in round 1 failed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("what", MISTAKES)
def test_a_hook_that_fails_is_named(what: str, engine: str) -> None:
    changes, said = MISTAKES[what]
    with pytest.raises((AlgorithmError, ModelError), match=said):
        run(made(**changes), engine)


def in_training_alone(otherwise: Callable[[], Any]) -> dict[str, Any]:
    """A loss that does something else in eval mode."""

    def own(net: Networks, batch: Batch, _received: Any) -> Any:
        return batch.cross_entropy(net(batch.x)) if net.modules["head"].training else otherwise()

    return loss(own)


MEASURED: dict[str, Callable[[], Any]] = {
    "failed: KeyError: 'eval'": lambda: {"train": 1}["eval"],
    "failed: TypeError: it gives None": lambda: None,
}


@pytest.mark.parametrize("said", MEASURED)
def test_a_loss_that_fails_in_eval_mode_is_named_where_its_gradient_is_measured(said: str) -> None:
    with pytest.raises(AlgorithmError, match=f"{LOSS} {said}"):
        run(made(**in_training_alone(MEASURED[said])), "loop", measure="gradient-norm")


def test_a_measured_loss_is_counted_after_the_phases_that_adapt() -> None:
    adapting = Phase(train=("head",), loss=lambda net, batch, _r: batch.cross_entropy(net(batch.x)))
    changes = in_training_alone(lambda: None) | hook("adapt", lambda _round: (adapting,))
    with pytest.raises(AlgorithmError, match=r"Mine\.mine \(the loss of phase 1\) for client 0"):
        run(made(**changes), "loop", measure="gradient-norm")


def test_the_conformance_check_says_it_too() -> None:
    with pytest.raises(ConformanceError, match=r"it does not run: Mine\.mine .* for client \d"):
        check_algorithm(made(**loss(lambda _net, _b, _r: None), shared=())())


def test_the_error_keeps_its_cause() -> None:
    with pytest.raises(PotluckError) as caught:
        run(made(**loss(lambda _net, _b, _r: 1 / 0)), "loop")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("error", [MemoryError("none"), RuntimeError("CUDA out of memory")])
def test_short_memory_is_no_mistake_of_the_method(error: Exception) -> None:
    def short(*_: object) -> None:
        raise error

    with pytest.raises(type(error)):
        run(made(**hook("upload", short)), "loop")


# ---- its class ------------------------------------------------------------------------------------------------------


def test_a_misspelt_shared_network() -> None:
    class Mine(Plain):
        shared: ClassVar[tuple[str, ...]] = ("haed",)

    with pytest.raises(ModelError, match="shares the network 'haed', and clients hold body, head"):
        run(Mine, "loop")


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("shraed", "shared"), ("agregate", "aggregate"), ("predit", "predict"), ("upload_metas", "upload_meta")],
)
def test_a_misspelt_name_of_the_contract(wrong: str, meant: str) -> None:
    with pytest.raises(AlgorithmError, match=rf"the contract has no '{wrong}': did you mean '{meant}'\?"):
        type("Mine", (Plain,), {"__module__": __name__, wrong: lambda *_: None})

    class Mine(Plain):
        def _agregate(self) -> None:
            """A helper, which may be called anything."""

    assert Mine.name == "plain"


def test_no_name() -> None:
    class Mine(Algorithm):
        pass

    for use in (Mine, lambda: register(Mine), lambda: run(Mine, "loop")):
        with pytest.raises(AlgorithmError, match="Mine has no name"):
            use()


def test_the_title_is_the_name() -> None:
    assert Plain.title == "plain"
    assert PFedES.title == "pFedES"


def test_a_method_derived_from_another_has_a_title_of_its_own() -> None:
    class Mine(PFedES):
        name: ClassVar[str] = "mine"

    class Titled(Mine):
        name: ClassVar[str] = "titled"
        title: ClassVar[str] = "The Titled"

    class Again(Titled):
        """Only something else in how it works."""

    assert (Mine.title, Titled.title, Again.title) == ("mine", "The Titled", "The Titled")


def test_a_setting_without_annotation() -> None:
    with pytest.raises(AlgorithmError, match=r"Mine: 'mu' has a value and no annotation\. .*`mu: float = setting"):

        class Mine(Plain):
            mu = 0.1  # type: ignore[pydantic-field]  # the mistake


def test_shared_without_classvar(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(AlgorithmError, match=r"'shared' has a value and no annotation\. .*`shared: ClassVar"):

        class Mine(Algorithm):
            name: ClassVar[str] = "mine"
            shared = ("head",)  # type: ignore[pydantic-field]  # the mistake

    with pytest.raises(AlgorithmError, match="'shared' is something that every algorithm has, not a setting"):

        class Other(Algorithm):
            name: ClassVar[str] = "other"
            shared: tuple[str, ...] = ("head",)

    assert not recwarn.list


def test_a_property_that_is_a_method() -> None:
    with pytest.raises(AlgorithmError, match="'shared' is a property: write @property"):

        class Mine(Algorithm):
            name: ClassVar[str] = "mine"

            def shared(self) -> tuple[str, ...]:  # type: ignore[override]  # the mistake
                return ()


@pytest.mark.parametrize("constant", ["shared", "needs", "upload_meta"])
def test_a_text_in_place_of_several_names(constant: str) -> None:
    with pytest.raises(AlgorithmError, match=f"Mine: {constant!r} is 'samples', and not several names"):
        run(made(**{constant: "samples", "__annotations__": {constant: ClassVar[str]}}), "loop")


def test_an_unknown_need() -> None:
    class Mine(Plain):
        needs: ClassVar[frozenset[Any]] = frozenset({"equal model"})

    with pytest.raises(AlgorithmError, match="did you mean 'equal models'"):
        run(Mine, "loop")


def test_settings_of_an_instance() -> None:
    class Mine(Plain):
        mu: float = setting(0.1, "how much", ge=0, le=1)

    assert Mine(mu=1).mu == 1
    for wrong in ({"mu": 2}, {"mu": True}, {"muu": 1}):
        with pytest.raises(ConfigError, match="mu"):
            Mine(**wrong)
    with pytest.raises(ConfigError, match="by name"):
        PFedES(0.1)  # type: ignore[call-arg]  # the mistake
