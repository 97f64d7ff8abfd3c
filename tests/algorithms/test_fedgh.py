"""FedGH's own special cases."""

from __future__ import annotations

import torch

from potluck import Payload, Round, Task
from potluck.algorithms import Upload, algorithm

TASK = Task((1, 4, 4), classes=3, width=2)
STATE = {"head.weight": torch.zeros(3, 2), "head.bias": torch.zeros(3)}


def upload(client: int, labels: list[int]) -> Upload:
    sent = {"means": torch.ones(len(labels), 2), "labels": torch.tensor(labels, dtype=torch.int32)}
    return Upload(client, Payload(sent))


def test_the_header_is_trained() -> None:
    """The released code never updates it."""
    trained = algorithm("fedgh").aggregate(STATE, [upload(0, [0, 1])], Round(1, 1), TASK)
    assert (trained["head.weight"][:2] != 0).all()


def test_a_class_that_nobody_has_is_only_pushed_down() -> None:
    trained = algorithm("fedgh").aggregate(STATE, [upload(0, [0]), upload(1, [1])], Round(1, 1), TASK)
    assert (trained["head.weight"][2] < 0).all()
    assert trained["head.bias"][2] < 0


def test_one_step_for_each_or_for_each_client() -> None:
    both = [upload(0, [0, 2]), upload(4, [1])]
    single = algorithm("fedgh").aggregate(STATE, both, Round(1, 1), TASK)
    batched = algorithm("fedgh", {"header_step": "client"}).aggregate(STATE, both, Round(1, 1), TASK)
    assert not torch.allclose(single["head.bias"], batched["head.bias"])
    alone = [upload(0, [0]), upload(1, [2]), upload(4, [1])]
    again = algorithm("fedgh", {"header_step": "client"}).aggregate(STATE, alone, Round(1, 1), TASK)
    assert torch.allclose(single["head.bias"], again["head.bias"])
