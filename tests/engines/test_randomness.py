"""Dropout as a pure function of one key per sample; no other randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck import draws
from potluck.engines.randomness import CounterDropout, RefuseUnseeded
from potluck.errors import ModelError

from .made_up import CLASSES, MadeUp, member, model, setting, train

KEYS = draws.spread(draws.fold(0, "test"), torch.arange(8))


def drop(x: Tensor, layer: Callable[[Tensor], Tensor], keys: Tensor = KEYS) -> Tensor:
    with CounterDropout(keys):
        return layer(x)


def ones(*shape: int) -> Tensor:
    return torch.ones(8, *shape, dtype=torch.float64)


def test_layers_and_functions_drop_the_same_units() -> None:
    by_layer = drop(ones(50), nn.Dropout(0.3))
    assert torch.equal(by_layer, drop(ones(50), lambda x: F.dropout(x, 0.3)))
    assert torch.equal(by_layer, drop(ones(50), lambda x: nn.functional.dropout(input=x, p=0.3, training=True)))
    assert torch.equal(by_layer, drop(ones(50), nn.Dropout(0.3, inplace=True)))


def test_kept_units_are_scaled_up_and_the_rate_is_right() -> None:
    for rate in (0.1, 0.5, 0.8):
        dropped = drop(ones(4000), nn.Dropout(rate))
        kept = dropped != 0
        assert torch.allclose(dropped[kept], torch.tensor(1 / (1 - rate), dtype=torch.float64), rtol=1e-15)
        share = 1 - float(kept.double().mean())
        assert share == pytest.approx(rate, abs=4 * (rate * (1 - rate) / 32_000) ** 0.5)
        rows = 1 - kept.double().mean(1)
        assert float((rows - rate).abs().max()) < 5 * (rate * (1 - rate) / 4000) ** 0.5


def test_a_mask_belongs_to_a_sample_and_not_to_its_place() -> None:
    whole = drop(ones(20), nn.Dropout())
    some = torch.tensor([6, 1, 1, 3])
    assert torch.equal(drop(ones(20)[some], nn.Dropout(), KEYS[some]), whole[some])
    assert not torch.equal(whole[1], whole[3])


def test_a_mask_is_the_same_in_both_precisions() -> None:
    assert torch.equal(drop(ones(200), nn.Dropout()) != 0, drop(ones(200).float(), nn.Dropout()) != 0)
    assert drop(ones(3).float(), nn.Dropout()).dtype == torch.float32


def test_every_call_within_a_step_is_another_draw_and_every_step_the_same_again() -> None:
    layers = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    first = drop(ones(200), nn.Dropout(0.5))
    both = drop(ones(200), layers)
    assert bool((both[first == 0] == 0).all())
    assert 0.2 < float((both != 0).double().mean()) < 0.3
    assert torch.equal(both, drop(ones(200), layers))
    assert not torch.equal(first, drop(ones(200), nn.Dropout(0.5), KEYS + 1))


def test_joined_inputs_draw_anew() -> None:
    joined = drop(torch.cat([ones(200), ones(200), ones(200)]), nn.Dropout())
    parts = joined.chunk(3)
    assert torch.equal(parts[0], drop(ones(200), nn.Dropout()))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        same = float(((parts[one] != 0) == (parts[other] != 0)).double().mean())
        assert same == pytest.approx(0.5, abs=0.1)
    some = torch.tensor([5, 2])
    few = drop(torch.cat([ones(200)[some]] * 2), nn.Dropout(), KEYS[some])
    assert torch.equal(few, torch.cat([parts[0][some], parts[1][some]]))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout1d(0.4), (60, 7)), (nn.Dropout2d(0.4), (60, 3, 5)), (nn.Dropout3d(0.4), (60, 2, 3, 2)),
        (nn.Dropout2d(0.4), (60, 7)),
    ],
)  # fmt: skip
def test_channels_are_dropped_as_a_whole(layer: nn.Module, shape: tuple[int, ...]) -> None:
    dropped = drop(ones(*shape), layer).flatten(2)
    kept = dropped[:, :, 0] != 0
    assert torch.equal(dropped != 0, kept[:, :, None].expand_as(dropped))
    assert 1 - float(kept.double().mean()) == pytest.approx(0.4, abs=4 * (0.24 / 480) ** 0.5)
    assert torch.allclose(dropped[dropped != 0], torch.tensor(1 / 0.6, dtype=torch.float64))


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero_and_all_at_rate_one() -> None:
    x = ones(30)
    assert torch.equal(drop(x, nn.Dropout(0.5).eval()), x)
    assert torch.equal(drop(x, nn.Dropout(0.0)), x)
    assert not bool(drop(x, nn.Dropout(1.0)).any())


def test_a_call_that_drops_nothing_is_no_draw() -> None:
    frozen_first = nn.Sequential(nn.Dropout(0.5).eval(), nn.Dropout(0.5))
    assert torch.equal(drop(ones(30), frozen_first), drop(ones(30), nn.Dropout(0.5)))


def test_gradients_pass_where_units_are_kept() -> None:
    x = ones(30).requires_grad_()
    dropped = drop(x, nn.Dropout(0.5))
    dropped.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.equal(x.grad, dropped.detach())


def test_vectors_and_scalars_of_samples_can_be_dropped() -> None:
    assert drop(ones(), nn.Dropout(0.5)).shape == (8,)


def test_the_global_generator_is_not_used() -> None:
    before = torch.get_rng_state()
    drop(ones(30), nn.Dropout(0.5))
    assert torch.equal(torch.get_rng_state(), before)


def test_it_works_under_vmap() -> None:
    keys = torch.stack([KEYS, KEYS + 1])

    def run(x: Tensor, key: Tensor) -> Tensor:
        return drop(x, nn.Dropout(0.5), key)

    together = torch.func.vmap(run)(torch.stack([ones(20), 2 * ones(20)]), keys)
    assert torch.equal(together[0], drop(ones(20), nn.Dropout(0.5)))
    assert torch.equal(together[1], drop(2 * ones(20), nn.Dropout(0.5), KEYS + 1))


@pytest.mark.parametrize("rows", [1, 7, 9, 12])
def test_rows_that_are_no_samples_are_refused(rows: int) -> None:
    with pytest.raises(ModelError, match=f"dropout saw {rows} samples in a batch of 8"):
        drop(torch.ones(rows, 3), nn.Dropout())


# ---- all other randomness -------------------------------------------------------------------------------------------

SEEN_AT_ONCE: dict[str, Callable[[Tensor], Any]] = {
    "randn": lambda x: x + torch.randn(x.shape),
    "randn_like": lambda x: x + torch.randn_like(x),
    "rand": lambda x: x + torch.rand(x.shape),
    "rand_like": torch.rand_like,
    "randint": lambda x: x + torch.randint(3, x.shape),
    "randperm": lambda x: x[torch.randperm(len(x))],
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "multinomial": lambda x: torch.multinomial(x, 1),
    "normal": lambda x: torch.normal(x, 1.0),
    "alpha_dropout": nn.AlphaDropout(),
    "feature_alpha_dropout": nn.FeatureAlphaDropout(),
    "rrelu": nn.RReLU(),
}

with draws.initial_weights(0):
    ATTENTION = nn.MultiheadAttention(6, 2, dropout=0.5, dtype=torch.float64)
    RECURRENT = nn.LSTM(6, 3, num_layers=2, dropout=0.5, dtype=torch.float64)

SEEN_IN_A_TRIAL: dict[str, Callable[[Tensor], Any]] = {
    "in place": lambda x: x * torch.empty_like(x).bernoulli_(0.5),
    "noise in place": lambda x: x + torch.empty_like(x).normal_(),
    "uniform in place": lambda x: x + torch.empty_like(x).uniform_(),
    "method": lambda x: (x * 0.5).bernoulli(),
    "torch.dropout": lambda x: torch.dropout(x, 0.5, True),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
    "attention layer": lambda x: ATTENTION(x, x, x)[0],
    "recurrent layer": lambda x: RECURRENT(x)[0],
    "gumbel": F.gumbel_softmax,
    "poisson": torch.poisson,
}


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    for module in modules:
        module.eval()
    yield
    for module in modules:
        module.train()


def try_out(layer: Callable[[Tensor], Any], x: Tensor) -> Any:
    with CounterDropout(KEYS), RefuseUnseeded():  # type: ignore[no-untyped-call]
        return layer(x)


@pytest.mark.parametrize("layer", SEEN_AT_ONCE.values(), ids=SEEN_AT_ONCE.keys())
def test_unseeded_randomness_is_refused(layer: Callable[[Tensor], Any]) -> None:
    with pytest.raises(ModelError, match="draws random numbers with"):
        drop(ones(6), layer)


@pytest.mark.parametrize("layer", SEEN_IN_A_TRIAL.values(), ids=SEEN_IN_A_TRIAL.keys())
def test_a_trial_step_sees_what_is_hidden(layer: Callable[[Tensor], Any]) -> None:
    with pytest.raises(ModelError, match="draws random numbers with"):
        try_out(layer, ones(6))


def test_a_trial_step_lets_pass_what_draws_nothing() -> None:
    x = ones(6).requires_grad_()
    assert torch.equal(try_out(nn.Dropout(0.5), x), drop(x, nn.Dropout(0.5)))
    whole = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2)).double()
    try_out(whole, x).sum().backward()
    for inputs in (x[None], x.reshape(2, 2, 3, 4)):  # one is computed by a function that is marked as random
        try_out(lambda x: F.scaled_dot_product_attention(x, x, x), inputs).sum().backward()
    for name in ("attention layer", "recurrent layer"):
        with evaluating(ATTENTION, RECURRENT):
            try_out(SEEN_IN_A_TRIAL[name], x)


class Noisy(nn.Module):
    """Adds to its inputs, in training, what a function of them draws."""

    def __init__(self, draw: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: Tensor) -> Tensor:
        return x + self.draw(x) if self.training else x


@pytest.mark.parametrize("draw", [torch.randn_like, lambda x: torch.empty_like(x).normal_()], ids=["seen", "hidden"])
def test_a_network_that_draws_cannot_be_trained(draw: Callable[[Tensor], Tensor]) -> None:
    noisy = model(Noisy(draw), nn.Linear(4, 5), nn.Linear(5, CLASSES))
    with pytest.raises(ModelError, match=r"draws random numbers with .*normal|randn"):
        train(setting(MadeUp()), member(noisy))
