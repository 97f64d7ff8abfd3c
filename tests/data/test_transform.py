"""From bytes to what a network sees."""

from __future__ import annotations

import pytest
import torch

from potluck.data import Transform, augment
from potluck.draws import spread
from potluck.errors import ConfigError, DataError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BYTES = torch.arange(2 * 3 * 4 * 4).mul(7).remainder(256).to(torch.uint8).reshape(2, 3, 4, 4)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-15), (torch.float32, 1e-6), (torch.bfloat16, 1e-2)]
)
def test_plain_normalises_bytes(dtype: torch.dtype, tolerance: float) -> None:
    result = Transform(MEAN, STD).plain(BYTES, dtype)
    assert result.dtype == dtype
    for n, c, h, w in ((0, 0, 0, 0), (1, 1, 2, 3), (1, 2, 3, 3)):
        expected = (BYTES[n, c, h, w].item() / 255 - MEAN[c]) / STD[c]
        assert result[n, c, h, w].item() == pytest.approx(expected, rel=tolerance, abs=tolerance)


def test_half_precision_is_rounded_once() -> None:
    transform = Transform(MEAN, STD)
    assert torch.equal(transform.plain(BYTES, torch.float16), transform.plain(BYTES, torch.float32).half())


def test_floats_are_not_divided() -> None:
    x = torch.rand(2, 3, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Transform().plain(x, torch.float64), x)
    assert torch.equal(Transform().plain(x, torch.float32), x.float())
    expected = (x - torch.tensor(MEAN).double().view(3, 1, 1)) / torch.tensor(STD).double().view(3, 1, 1)
    assert torch.allclose(Transform(MEAN, STD).plain(x, torch.float64), expected, atol=1e-6)


def test_bytes_without_mean_are_only_divided() -> None:
    assert torch.equal(Transform().plain(BYTES, torch.float64), BYTES.double() / 255)


@pytest.mark.parametrize("shape", [(5,), (5, 7), (5, 2, 3), (5, 1, 2, 3, 4)])
def test_tables_of_any_shape_pass(shape: tuple[int, ...]) -> None:
    x = torch.ones(shape)
    assert torch.equal(Transform().augmented(x, torch.arange(5), torch.float64), x.double())


def test_augmented_is_the_preset_after_normalisation() -> None:
    keys = spread(0, torch.arange(2))
    transform = Transform(MEAN, STD, "release")
    result = transform.augmented(BYTES, keys, torch.float32)
    assert torch.equal(result, augment.release(transform.plain(BYTES, torch.float32), keys))
    assert not torch.equal(result, transform.plain(BYTES, torch.float32))
    plain = Transform(MEAN, STD)
    assert torch.equal(plain.augmented(BYTES, keys, torch.float32), plain.plain(BYTES, torch.float32))


def test_augmented_images_can_be_differentiated() -> None:
    x = torch.ones(2, 3, 4, 4, requires_grad=True)
    keys, transform = spread(0, torch.arange(2)), Transform(MEAN, (0.5,) * 3, "release")
    (gradient,) = torch.autograd.grad(transform.augmented(x, keys, torch.float32).sum(), x)
    assert set(gradient.flatten().tolist()) <= {0.0, 2.0}


def test_augmented_in_another_layout() -> None:
    keys, transform = spread(0, torch.arange(2)), Transform(MEAN, STD, "release")
    last = transform.augmented(BYTES, keys, torch.float32, torch.channels_last)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last, transform.augmented(BYTES, keys, torch.float32))


@pytest.mark.parametrize("augmentation", augment.names())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("at_once", [1, 600])
def test_more_images_than_are_worked_on_at_once(
    monkeypatch: pytest.MonkeyPatch, augmentation: str, dtype: torch.dtype, at_once: int
) -> None:
    x = torch.randint(0, 256, (23, 3, 4, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    keys, transform = spread(1, torch.arange(23)), Transform(MEAN, STD, augmentation)
    whole = transform.augmented(x, keys, dtype)
    worked_on = []
    work = Transform._augmented

    def watched(self: Transform, x: torch.Tensor, keys: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        worked_on.append(len(x))
        return work(self, x, keys, dtype)

    monkeypatch.setattr(Transform, "_augmented", watched)
    monkeypatch.setattr("potluck.data.transform._AT_ONCE", at_once)
    pieces = transform.augmented(x, keys, dtype)
    assert worked_on == ([1] * 23 if at_once == 1 else [10, 10, 3])  # an image has 60 numbers
    assert (pieces.shape, pieces.dtype) == (x.shape, dtype)
    assert torch.equal(pieces, whole)


def test_can_be_differentiated_after_inference() -> None:
    transform = Transform((0.125,), (0.375,))  # numbers that no other test has asked for
    with torch.inference_mode():
        transform.plain(torch.ones(1, 1, 2, 2), torch.float64)
    x = torch.ones(1, 1, 2, 2, dtype=torch.float64, requires_grad=True)
    transform.plain(x, torch.float64).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.full_like(x, 1 / 0.375))


def test_is_a_value() -> None:
    assert Transform(MEAN, STD, "release") == Transform(MEAN, STD, "release")
    assert len({Transform(MEAN, STD), Transform(MEAN, STD), Transform()}) == 2


@pytest.mark.parametrize(
    ("mean", "std", "augmentation", "message"),
    [
        ((0.5,), None, "none", "belong together"),
        (None, (0.5,), "none", "belong together"),
        ((0.5,), (0.5, 0.5), "none", "one finite number per channel"),
        ((), (), "none", "one finite number per channel"),
        ((float("nan"),), (0.5,), "none", "one finite number per channel"),
        ((float("-inf"),), (0.5,), "none", "one finite number per channel"),
        ((0.5,), (float("inf"),), "none", "one finite number per channel"),
        ((0.5,), (0.0,), "none", "above 0"),
        ((0.5,), (float("nan"),), "none", "above 0"),
        ((0.5,), (0.5,), "relese", "did you mean 'release'"),
    ],
)
def test_bad_settings(
    mean: tuple[float, ...] | None, std: tuple[float, ...] | None, augmentation: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Transform(mean, std, augmentation)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(DataError, match=r"\(2, 3, 4, 4\) cannot be normalised with 1 channel means"):
        Transform((0.5,), (0.5,)).plain(BYTES, torch.float32)
    with pytest.raises(DataError, match=r"shape \(5, 7\): use 'none'"):
        Transform(augmentation="release").augmented(torch.ones(5, 7), torch.arange(5), torch.float32)


@pytest.mark.parametrize("augmentation", ["none", "release", "two-views"])
def test_what_is_planned_is_what_is_done(augmentation: str) -> None:
    transform = Transform((0.5,) * 3, (0.25,) * 3, augmentation)
    x = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    keys = torch.arange(6).view(2, 3) * 7919
    plan = transform.plan(keys, (3, 32, 32))
    assert plan.shape[:2] == (2, 3)
    found = transform.planned(x, plan.flatten(0, 1), torch.float32)
    assert torch.equal(found, transform.augmented(x, keys.flatten(), torch.float32))
