"""The hash and all that is drawn with it."""

from __future__ import annotations

import math
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from potluck.draws import fold, initial_weights, permutation, shares, spread, uniform

INT64 = st.integers(-(2**63), 2**63 - 1)
WORD = st.one_of(INT64, st.text(max_size=8))


def reference(value: int) -> int:
    """The finaliser of SplitMix64 on unsigned 64-bit integers, as its authors print it."""
    value %= 2**64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
    return value ^ (value >> 31)


def chi_square(counts: Tensor) -> float:
    """How many standard deviations the statistic of equally likely counts lies from its mean."""
    expected = counts.double().mean()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    freedom = counts.numel() - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


def correlation(a: Tensor, b: Tensor) -> float:
    """Their correlation times the square root of their length: a standard normal number if they are independent."""
    return float(torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1]) * math.sqrt(len(a))


# ---- the hash -------------------------------------------------------------------------------------------------------


def test_the_published_sequence_of_splitmix64() -> None:
    keys = [key % 2**64 for key in spread(1234567, torch.arange(5)).tolist()]
    assert keys == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(key=INT64, index=INT64)
def test_tensors_are_hashed_as_integers_are(key: int, index: int) -> None:
    golden = 0x9E3779B97F4A7C15
    expected = reference(key + (index + 1) * golden)
    assert int(spread(key, torch.tensor(index))) % 2**64 == expected
    assert int(spread(torch.tensor(key), torch.tensor(index))) % 2**64 == expected
    assert fold(key, index) % 2**64 == reference(reference(key + golden) + (index + 1) * golden)


@given(key=INT64, index=INT64)
def test_folding_a_number_is_spreading_twice(key: int, index: int) -> None:
    assert fold(key, index) == int(spread(spread(key, torch.tensor(0)), torch.tensor(index)))


def test_values_that_every_run_depends_on() -> None:
    # Whoever changes one of these changes the result of every run, also of those that are resumed.
    assert fold(0, "order", 3, 17) == 47549065645077233
    assert fold(7, "") == -4666079165204979546
    assert fold(2**63 - 1, "train", 1, 2, 3, -1) == -8695980386161454171
    assert spread(fold(0, "step"), torch.arange(3)).tolist() == [
        1661933464870705472,
        7111227279783538822,
        741225235043988921,
    ]
    assert (uniform(torch.tensor([0, 1, -5]), 2) * 2**24).tolist() == [443485, 16290722, 14805915]
    assert permutation(fold(3, "cohort", 1), 8).tolist() == [1, 6, 0, 4, 2, 5, 7, 3]


@given(key=INT64, words=st.lists(WORD, max_size=4), more=st.lists(WORD, max_size=4))
def test_folding_goes_step_by_step(key: int, words: list[str | int], more: list[str | int]) -> None:
    assert fold(key, *words, *more) == fold(fold(key, *words), *more)
    assert -(2**63) <= fold(key, *words, *more) < 2**63


@given(key=INT64, one=WORD, other=WORD)
def test_folding_separates_words_and_minds_their_order(key: int, one: str | int, other: str | int) -> None:
    if one != other:
        assert fold(key, one) != fold(key, other)
        assert fold(key, one, other) != fold(key, other, one)
    assert fold(key, one, other) != fold(key, one)


def test_texts_are_not_run_together() -> None:
    keys = {fold(0, "ab", "c"), fold(0, "a", "bc"), fold(0, "abc"), fold(0, "abc", ""), fold(0, "", "abc")}
    assert len(keys) == 5


def test_a_number_is_not_its_text() -> None:
    assert fold(0, 1) != fold(0, "1")


def test_many_folds_do_not_collide() -> None:
    keys = {fold(seed, word, number) for seed in range(10) for word in ("a", "b") for number in range(1000)}
    assert len(keys) == 20_000


def test_one_bit_more_changes_half_of_the_bits() -> None:
    keys = spread(0, torch.arange(64))
    changed = [bin(fold(int(key), 0) ^ fold(int(key) ^ 1 << bit, 0)).count("1") for key in keys for bit in range(63)]
    assert sum(changed) / len(changed) == pytest.approx(32, abs=1)


# ---- uniform --------------------------------------------------------------------------------------------------------


def test_uniform_has_24_bits_and_is_the_same_in_both_precisions() -> None:
    drawn = uniform(spread(0, torch.arange(100_000)))
    assert drawn.dtype == torch.float32
    whole = drawn.double() * 2**24
    assert torch.equal(whole, whole.round())
    assert 0 <= float(drawn.min()) < 1e-4
    assert 1 - 1e-4 < float(drawn.max()) < 1
    assert bool((whole % 2 == 1).any())  # the last bit is in use


def test_uniform_is_uniform() -> None:
    drawn = uniform(spread(fold(0, "test"), torch.arange(200_000))).double()
    assert float(drawn.mean()) == pytest.approx(0.5, abs=4 / (12 * 200_000) ** 0.5)
    assert float(drawn.var()) == pytest.approx(1 / 12, abs=4 * (1 / 180 / 200_000) ** 0.5)
    assert abs(chi_square(torch.histc(drawn, 256, 0, 1))) < 4


@pytest.mark.parametrize("bit", range(24))
def test_every_bit_is_fair(bit: int) -> None:
    bits = (uniform(spread(5, torch.arange(20_000))) * 2**24).long() >> bit & 1
    assert abs(float(bits.double().mean()) - 0.5) < 4.5 * 0.5 / 20_000**0.5


def test_streams_keys_and_neighbours_are_independent() -> None:
    keys = spread(0, torch.arange(50_000))
    first = uniform(keys)
    for other in (uniform(keys, 1), uniform(keys, 2), uniform(keys, 1 << 20), uniform(spread(1, torch.arange(50_000)))):
        assert abs(correlation(first, other)) < 4
    assert abs(correlation(first[1:], first[:-1])) < 4
    pairs = (first * 16).long() * 16 + (uniform(keys, 1) * 16).long()
    assert abs(chi_square(torch.bincount(pairs, minlength=256))) < 4


def test_the_streams_of_one_key_are_uniform_too() -> None:
    drawn = uniform(torch.tensor(fold(0, "one key")), torch.arange(100_000))
    assert abs(chi_square(torch.histc(drawn.double(), 256, 0, 1))) < 4
    assert abs(correlation(drawn[1:], drawn[:-1])) < 4


def test_a_stream_may_be_a_number_or_a_tensor() -> None:
    keys = spread(3, torch.arange(5))
    table = uniform(keys[:, None], torch.arange(4))
    for stream in range(4):
        assert torch.equal(table[:, stream], uniform(keys, stream))


def test_a_draw_does_not_depend_on_what_else_is_drawn() -> None:
    keys = spread(fold(0, "x"), torch.arange(100))
    some = torch.tensor([70, 3, 3, 99])
    assert torch.equal(uniform(keys)[some], uniform(spread(fold(0, "x"), some)))
    assert torch.equal(spread(9, torch.tensor([1, 2], dtype=torch.int32)), spread(9, torch.tensor([1, 2])))


# ---- permutation ----------------------------------------------------------------------------------------------------


@given(key=INT64, size=st.integers(0, 200))
def test_a_permutation_has_everything_once(key: int, size: int) -> None:
    order = permutation(key, size)
    assert order.dtype == torch.int64
    assert sorted(order.tolist()) == list(range(size))
    assert torch.equal(order, permutation(key, size))


def test_every_place_is_equally_likely() -> None:
    size, trials = 7, 3000
    orders = torch.stack([permutation(fold(0, "trial", trial), size) for trial in range(trials)])
    for place in range(size):
        assert abs(chi_square(torch.bincount(orders[:, place], minlength=size))) < 4
    pairs = orders[:, 0] * size + orders[:, 1]
    counts = torch.bincount(pairs, minlength=size * size).reshape(size, size)
    assert int(counts.diagonal().sum()) == 0
    assert abs(chi_square(counts[~torch.eye(size, dtype=torch.bool)])) < 4


# ---- initial weights ------------------------------------------------------------------------------------------------


def test_initial_weights_depend_on_the_key_alone() -> None:
    made = []
    for seed, key in ((0, 5), (1, 5), (1, 6), (1, fold(0, "negative")), (2, fold(0, "negative"))):
        torch.manual_seed(seed)
        with initial_weights(key):
            made.append(nn.Linear(4, 4).weight.detach())
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[1], made[2])
    assert torch.equal(made[3], made[4])


def test_initial_weights_leave_the_global_generator_as_it_was() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with initial_weights(5):
        nn.Linear(4, 4)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ZeroDivisionError), initial_weights(5):
        nn.Linear(4, 4)
        1 / 0  # noqa: B018
    assert torch.equal(torch.get_rng_state(), before)


def test_initial_weights_can_be_nested() -> None:
    with initial_weights(1):
        plain = torch.rand(3)
    with initial_weights(1):
        with initial_weights(2):
            inner = torch.rand(3)
        outer = torch.rand(3)
    assert torch.equal(outer, plain)
    assert not torch.equal(inner, plain)


def test_only_one_thread_at_a_time_makes_initial_weights() -> None:
    entered = threading.Event()
    drawn: list[Tensor] = []

    def other() -> None:
        with initial_weights(2):
            entered.set()
            drawn.append(torch.rand(3))

    thread = threading.Thread(target=other)
    with initial_weights(1):
        thread.start()
        assert not entered.wait(0.2)
        mine = torch.rand(3)
    thread.join()
    for key, values in ((1, mine), (2, drawn[0])):
        with initial_weights(key):
            assert torch.equal(torch.rand(3), values)


# ---- shares -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concentration", [1e-3, 0.1, 0.5, 1.0, 7.5, 1e6])
def test_shares_are_of_a_dirichlet_distribution(concentration: float) -> None:
    columns = 4
    drawn = shares(11, concentration, 4000, columns)
    assert drawn.dtype == torch.float64
    assert torch.allclose(drawn.sum(1), torch.ones(4000, dtype=torch.float64))
    assert (drawn >= 0).all()
    variance = 0.25 * 0.75 / (columns * concentration + 1)
    assert (drawn.mean(0) - 0.25).abs().max() < 4 * (variance / 4000) ** 0.5
    assert abs(drawn.var() - variance) < 0.1 * variance
    # Any two of them lack what the other has: their correlation is -1 / (n - 1).
    assert abs(torch.corrcoef(drawn.T)[0, 1] + 1 / 3) < 0.06


def test_one_share_of_two_has_a_beta_distribution() -> None:
    # Beta(1/2, 1/2) is the law of the arcsine: P(share < s) = 2/pi asin(sqrt(s)).
    drawn = shares(3, 0.5, 20_000, 2)[:, 0]
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        assert abs((drawn < level).double().mean() - 2 / math.pi * math.asin(math.sqrt(level))) < 0.015


def test_shares_stay_what_they_are() -> None:
    # From here to the end of time, or no partition could be repeated.
    drawn = shares(42, 0.3, 2, 3)
    assert torch.equal(drawn, shares(42, 0.3, 2, 3))
    assert not torch.equal(drawn, shares(43, 0.3, 2, 3))
    assert not torch.equal(drawn, shares(-42, 0.3, 2, 3))
    expected = [
        [0.8148660430186473, 0.17853332331326283, 0.006600633668089918],
        [0.6719784460046172, 8.08095700645886e-05, 0.3279407444253181],
    ]
    assert torch.allclose(drawn, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=0)
