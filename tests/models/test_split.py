"""The cut into body and head: right for models of every make, or an error that says what to do."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from potluck.errors import ModelError
from potluck.models import build, check_outputs, names, output_width, representation_width, split

from .networks import (
    Attention,
    Auxiliary,
    ByHand,
    Cosine,
    Functional,
    Listed,
    LooksAtIt,
    Nested,
    OutOfOrder,
    Pair,
    Reshaped,
    Residual,
    SideBranch,
    Tied,
    Twice,
    TwoInputs,
    Uncopyable,
    conv_bn,
    zero_head,
)

Make = Callable[[], nn.Module]


ROW, IMAGE = (8,), (1, 8, 8)


def papers_width(name: str) -> int:
    """How wide the representation of a paper's network is."""
    if name.startswith("fedproto-cnn"):
        return 50
    return 500 if name.startswith("cnn") else 512


MODELS: dict[str, tuple[Make, tuple[int, ...], int]] = {  # how to make it, its input, the width of its representation
    "out of order": (OutOfOrder, ROW, 6),
    "functional": (Functional, IMAGE, 72),
    "nested": (Nested, ROW, 6),
    "residual": (Residual, ROW, 8),
    "side branch": (SideBranch, ROW, 8),
    "attention": (Attention, ROW, 4),
    "conv and batch norm": (conv_bn, IMAGE, 4),
    "zero head": (zero_head, ROW, 6),
    "only a linear layer": (lambda: nn.Linear(8, 3), ROW, 8),
    "no bias": (lambda: nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3, bias=False)), ROW, 6),
    "flatten after": (lambda: nn.Sequential(nn.Linear(8, 3), nn.Flatten(), nn.Identity()), ROW, 8),
    "dropout before": (lambda: nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5), nn.Linear(6, 3)), ROW, 6),
    "weight norm": (lambda: nn.Sequential(nn.Linear(8, 6), weight_norm(nn.Linear(6, 3))), ROW, 6),
    "spectral norm": (lambda: nn.Sequential(spectral_norm(nn.Linear(8, 6)), spectral_norm(nn.Linear(6, 3))), ROW, 6),
    "float64": (lambda: OutOfOrder().double(), ROW, 6),
    **{name: (partial(build, name, (1, 16, 16), 3), (1, 16, 16), papers_width(name)) for name in names()},
    "mlp-7-6": (partial(build, "mlp-7-6", ROW, 3), ROW, 6),
}


def batch(model: nn.Module, shape: tuple[int, ...], seed: int = 5) -> Tensor:
    dtype = next(model.parameters()).dtype
    return torch.randn(6, *shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def seeded(*modules: nn.Module, x: Tensor) -> Tensor:
    """The modules one after another, with the same dropout each time."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        for module in modules:
            x = module(x)
        return x


def check_parts(model: nn.Module, shape: tuple[int, ...], width: int) -> None:
    """What must hold of every cut: the composition is the model, in both modes and also after a step of training."""
    parts = split(model, shape)
    body, head = parts["body"], parts["head"]
    assert list(parts) == ["body", "head"]
    assert isinstance(head, nn.Linear)
    assert representation_width(head) == width
    x = batch(model, shape)
    for training in (False, True):
        whole = copy.deepcopy(model).train(training)
        pieces = [copy.deepcopy(part).train(training) for part in (body, head)]
        torch.testing.assert_close(seeded(*pieces, x=x), seeded(whole, x=x), rtol=0, atol=0)
        assert seeded(pieces[0], x=x).shape == (6, width)
    sizes = [sum(parameter.numel() for parameter in module.parameters()) for module in (model, body, head)]
    assert sizes[0] == sizes[1] + sizes[2]
    with torch.no_grad():  # as after training: the cut must not depend on the weights it was tried with
        for parameter in head.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(3))
    if seeded(body.eval(), x=x).any():  # a chain of few, dead units gives zeros, whatever the head
        assert not torch.equal(seeded(body.eval(), head.eval(), x=x), seeded(model.eval(), x=x))


@pytest.mark.parametrize("name", MODELS)
def test_composition_is_the_model(name: str) -> None:
    make, shape, width = MODELS[name]
    torch.manual_seed(0)
    check_parts(make(), shape, width)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[nn.Module, int]:
    """A chain of random layers around linear ones, bracketed at random into nested chains."""
    width = 5
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["linear", "relu", "tanh", "dropout", "norm"]))
        if kind == "linear":
            wide = draw(st.integers(1, 7))
            layers.append(nn.Linear(width, wide))
            width = wide
        else:
            extra = {"relu": nn.ReLU(), "tanh": nn.Tanh(), "dropout": nn.Dropout(0.5), "norm": nn.BatchNorm1d(width)}
            layers.append(extra[kind])
    layers.append(nn.Linear(width, draw(st.integers(1, 4)), bias=draw(st.booleans())))
    while len(layers) > 1:
        at = draw(st.integers(0, len(layers) - 2))
        layers[at : at + 2] = [nn.Sequential(*layers[at : at + 2])]
    return layers[0], width


@settings(max_examples=40)
@given(stacks())
def test_composition_is_the_model_for_any_chain(case: tuple[nn.Module, int]) -> None:
    model, width = case
    check_parts(model, (5,), width)


def test_nothing_of_the_model_changes() -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Sequential(nn.Linear(6, 3)))
    model[1].eval()  # mixed modes must stay mixed
    model[0].requires_grad_(False)
    modes = [module.training for module in model.modules()]
    kinds = [type(module) for module in model.modules()]
    hooks = [len(module._forward_hooks) for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    generator, python = torch.get_rng_state(), random.getstate()

    parts = split(model, ROW)
    check_outputs(model, ROW, 3)

    assert torch.equal(torch.get_rng_state(), generator)
    assert random.getstate() == python
    assert [module.training for module in model.modules()] == modes
    assert [type(module) for module in model.modules()] == kinds
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    body, head = parts["body"], parts["head"]
    assert not any(parameter.requires_grad for parameter in body.get_submodule("0").parameters())
    assert int(body.get_buffer("1.num_batches_tracked")) == 0
    assert all(not module._forward_hooks for part in parts.values() for module in part.modules())
    for parameter in [*body.parameters(), *head.parameters()]:
        parameter.data.fill_(7.0)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]), f"{name} is shared with the model"


def test_the_generator_is_put_back_after_an_error() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 3), nn.Softmax(1))
    torch.manual_seed(3)
    generator = torch.get_rng_state()
    with pytest.raises(ModelError):
        split(model, ROW)
    assert torch.equal(torch.get_rng_state(), generator)


@pytest.mark.parametrize("wrap", [Pair, lambda body, head: nn.ModuleDict({"body": body, "head": head})])
@pytest.mark.parametrize("head", [nn.Linear(6, 3), nn.Sequential(nn.ReLU(), nn.Linear(6, 3)), Cosine()])
def test_a_declared_pair_is_kept(wrap: Callable[[nn.Module, nn.Module], nn.Module], head: nn.Module) -> None:
    body = nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5), nn.BatchNorm1d(6))
    model = wrap(body, head)
    parts = split(model, ROW)
    for name, given_part in (("body", body), ("head", head)):
        assert str(parts[name]) == str(given_part)
        assert parts[name] is not given_part
        for key, tensor in given_part.state_dict().items():
            assert torch.equal(parts[name].state_dict()[key], tensor)


def test_the_names_alone_make_no_pair() -> None:
    # Something else stands between and around the two: the general rule cuts, and the head is one linear layer.
    model = nn.Sequential()
    model.add_module("body", nn.Conv2d(1, 2, 3))
    model.add_module("flat", nn.Flatten())
    model.add_module("head", nn.Sequential(nn.ReLU(), nn.Linear(72, 3)))
    check_parts(model, IMAGE, 72)
    dictionary = nn.ModuleDict({"body": nn.Conv2d(1, 2, 3), "head": nn.Sequential(nn.Flatten(), nn.Linear(72, 3))})
    parts = split(dictionary, IMAGE)  # this body gives no vectors
    assert isinstance(parts["head"], nn.Linear)
    assert parts["body"](torch.zeros(2, *IMAGE)).shape == (2, 72)


@pytest.mark.parametrize(
    "after",
    [nn.Softmax(1), nn.LogSoftmax(1), nn.ReLU(), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.BatchNorm1d(3), nn.ReLU6()],
    ids=str,
)
def test_something_after_the_last_layer(after: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3), after)
    with pytest.raises(ModelError, match=r"not that of its last linear layer '1'.*softmax is not needed: .* logits"):
        split(model, ROW)


@pytest.mark.parametrize("after", [nn.Softmax(1), nn.ReLU()], ids=str)
def test_something_after_a_layer_that_starts_at_zero(after: nn.Module) -> None:
    with pytest.raises(ModelError, match=r"not that of its last linear layer '0\.2'"):
        split(nn.Sequential(zero_head(), after), ROW)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.ReLU()), "has no nn.Linear.*end it in an nn.Linear"),
        (ByHand, "no nn.Linear of the model is called as a layer"),
        (Twice, "'fc' is used 2 times"),
        (Tied, "shares its weights with 'first.weight'"),
        (Listed, "cannot be cut before its last linear layer 'fc'.*call that layer once"),
        (LooksAtIt, "without its last layer does not run.*no attribute 'in_features'"),
        (TwoInputs, r"must take one tensor, a batch of inputs.*missing a required argument: 'input2'"),
        (Auxiliary, "must give one tensor, not a tuple as it does in training"),
        (Reshaped, r"one vector per input: a batch of shape \[4, 8\] gave \[4, 1, 3\]"),
        (Uncopyable, "cannot be copied: .*not me"),
        (
            lambda: nn.Linear(9, 3),
            r"does not run in evaluation on inputs of shape \[8\] \(tried: .* \[4, 8\]\): .*shapes",
        ),
        (lambda: nn.LazyLinear(3), "lazy layers"),
        (lambda: nn.ModuleDict({"body": nn.Linear(8, 6)}), "missing the required"),
        (lambda: Pair(nn.Linear(8, 6), nn.Linear(6, 3), nn.Softmax(1)), "not that of its last linear layer 'head'"),
        (lambda: nn.Sequential(nn.Linear(8, 6), Cosine()), "give the model as two modules called `body` and `head`"),
    ],
)
def test_what_cannot_be_cut(make: Make, message: str) -> None:
    with pytest.raises(ModelError, match=f"(?i){message}"):
        split(make(), ROW)


def test_torchscript_cannot_be_cut() -> None:
    with pytest.raises(ModelError, match="TorchScript"):
        split(torch.jit.ScriptModule(), ROW)


def test_check_outputs() -> None:
    check_outputs(OutOfOrder(), ROW, 3)
    with pytest.raises(ModelError, match=r"gives 3 class scores and the data have 10 classes: .* 10 outputs"):
        check_outputs(OutOfOrder(), ROW, 10)
    with pytest.raises(ModelError, match=r"inputs of shape \[7\]"):
        check_outputs(OutOfOrder(), (7,), 3)


def test_output_width() -> None:
    parts = split(Pair(nn.Linear(8, 6), Cosine()), ROW)  # a head that has no linear layer to ask
    assert output_width(parts["body"], ROW) == 6
    assert output_width(Pair(**parts), ROW) == 3
    with pytest.raises(ModelError, match="one vector per input"):
        output_width(nn.Conv2d(1, 2, 3), IMAGE)


def test_representation_width() -> None:
    assert representation_width(nn.Sequential(nn.ReLU(), nn.Linear(512, 10))) == 512
    with pytest.raises(ModelError, match=r"no nn\.Linear"):
        representation_width(Cosine())


def test_heads_of_the_papers_networks_are_interchangeable() -> None:
    heads = [split(build(f"cnn-{number}", (1, 16, 16), 10), (1, 16, 16))["head"] for number in range(1, 6)]
    assert {tuple((key, tensor.shape) for key, tensor in head.state_dict().items()) for head in heads} == {
        (("weight", (10, 500)), ("bias", (10,)))
    }


def test_the_representation_of_the_papers_networks_is_taken_after_relu() -> None:
    body = split(build("cnn-5", (1, 16, 16), 10), (1, 16, 16))["body"]
    representation = body(torch.randn(8, 1, 16, 16))
    assert representation.shape == (8, 500)
    assert representation.min() == 0
    assert representation.max() > 0
