"""What the server computes, against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from potluck.algorithms import Algorithm, Upload, algorithm
from potluck.algorithms.admission import aggregated
from potluck.algorithms.fedgh import FedGH
from potluck.algorithms.fedtgp import FedTGP
from potluck.algorithms.parts.low_rank import shortened
from potluck.algorithms.uploads import State
from potluck.contract import Round, Task
from potluck.metrics.counter import Counter
from potluck.metrics.server import ServerCounter, active_counter, counted_once
from potluck.payload import Payload

CLASSES, WIDTH, CLIENTS = 4, 6, 3
TASK = Task((5,), CLASSES, clients=CLIENTS, public=7, width=WIDTH)
ROUND = Round(2, 9, key=5)


def counted(do: Callable[[], object], counter: Counter | None = None) -> int:
    counter = counter or ServerCounter()
    with counter:
        do()
    return counter.total


def combining(method: Algorithm, uploads: list[Upload], state: State | None = None) -> int:
    counter = ServerCounter()
    given = method.server_state(TASK) if state is None else state
    found = aggregated(method, given, uploads, ROUND, TASK, counter)
    plain = aggregated(method, given, uploads, ROUND, TASK)
    assert all(torch.equal(found[name], tensor) for name, tensor in plain.items())  # counting changes nothing
    return counter.total


def class_means(*counts: int) -> list[Upload]:
    """Uploads of clients with these numbers of classes."""
    return [
        Upload(client, Payload({"means": torch.rand(count, WIDTH), "labels": torch.arange(count, dtype=torch.int32)}))
        for client, count in enumerate(counts)
    ]


# ---- methods by hand ------------------------------------------------------------------------------------------------


def test_a_mean_of_models_is_a_product_and_a_sum_for_each_weight() -> None:
    sent = {"body.weight": torch.rand(4, 6), "body.bias": torch.rand(4)}
    uploads = [Upload(client, Payload(sent, {"samples": 10 + client})) for client in range(CLIENTS)]
    products, sums = CLIENTS * 28, (CLIENTS - 1) * 28
    assert combining(algorithm("fedavg"), uploads, dict(sent)) == products + sums


def test_the_header_of_fedgh() -> None:
    forward = 2 * WIDTH * CLASSES + CLASSES
    error = (4 + 1) * CLASSES  # softmax, and less the label
    weight = CLASSES + 2 * CLASSES * WIDTH + CLASSES * WIDTH + CLASSES * WIDTH  # its rate, product, mean, step
    bias = 3 * CLASSES
    step = forward + error + weight + bias
    assert combining(algorithm("fedgh"), class_means(3, 1, 3)) == 7 * step
    assert combining(algorithm("fedgh", {"header_passes": 5}), class_means(3, 1, 3)) == 5 * 7 * step


def fedtgp_step(rows: int) -> int:
    table, weights = CLASSES * WIDTH, CLASSES * WIDTH + 2 * WIDTH * WIDTH + 2 * WIDTH
    layer = 2 * table * WIDTH
    forward = 2 * (layer + table) + table + 3 * rows * table  # two layers, ReLU, distances
    loss = (2 + 4) * rows * CLASSES  # the margin times and plus, log-softmax
    backward = 4 * rows * CLASSES + 3 * rows * table + 2 * (2 * layer + table) + table
    return forward + loss + backward + 2 * weights  # the rate times, and less


@pytest.mark.parametrize("epochs", [1, 3])
def test_the_prototypes_of_fedtgp(epochs: int) -> None:
    method = algorithm("fedtgp", {"server_epochs": epochs, "server_batch_size": 3})
    margin = 7 * WIDTH + 3 * 3 * 3 * WIDTH  # the mean of each class, and their distances
    assert combining(method, class_means(3, 1, 3)) == margin + epochs * (2 * fedtgp_step(3) + fedtgp_step(1))


def test_the_coefficients_of_kt_pfl() -> None:
    method = algorithm("kt-pfl", {"coefficient_steps": 2})
    predictions = TASK.public * CLASSES
    uploads = [Upload(k, Payload({"soft": torch.rand(TASK.public, CLASSES).softmax(1)})) for k in (0, 2)]
    state = {name: tensor.double() for name, tensor in method.server_state(TASK).items()}
    uploads = [Upload(u.client, Payload({"soft": u.payload.tensors["soft"].double()})) for u in uploads]
    mixture, missed, gradient = 2 * CLIENTS * predictions, predictions, 3 * CLIENTS * predictions
    row = 10 * CLIENTS + 1
    assert combining(method, uploads, state) == 2 * 2 * (mixture + missed + gradient + row)


def test_classes_of_fedproto_are_means() -> None:
    uploads = [
        Upload(u.client, Payload({**u.payload.tensors, "counts": torch.full((3,), 2, dtype=torch.int32)}))
        for u in class_means(3, 3)
    ]
    assert combining(algorithm("fedproto"), uploads) == 6 + 2 * 6 * WIDTH  # shares; means times these, summed


def test_a_factorisation_counts_by_its_formula() -> None:
    matrix = torch.outer(torch.arange(1.0, 5), torch.arange(1.0, 31))  # 4 x 30, of rank 1
    square, eigen, energy, parts = 2 * 4 * 4 * 30, 9 * 4**3, 4 + 4 + 1, 2 * 4 * 30
    with ServerCounter() as counter:
        sent = shortened({"w": matrix}, 0.9)
    assert sent["w:left"].shape == (4, 1)
    assert counter.total == square + eigen + energy + parts


# ---- steps that are counted once ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "steps"), [(FedTGP, ("_epoch", "_step")), (FedGH, ("_learned",))])
def test_what_is_counted_once_is_what_each_step_adds_up_to(
    method: type[Algorithm], steps: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    own: dict[str, Any] = {"server_epochs": 4, "server_batch_size": 3} if method is FedTGP else {"header_passes": 3}
    uploads = class_means(3, 4, 1)
    once = combining(algorithm(method.name, own), uploads)
    for name in steps:
        monkeypatch.setattr(method, name, vars(method)[name].__wrapped__)
    assert combining(algorithm(method.name, own), uploads) == once


def test_another_shape_type_or_number_is_counted_again() -> None:
    @counted_once
    def step(x: Tensor, times: int = 1) -> None:
        for _ in range(times):
            _ = x * 2

    def work() -> None:
        for given in (torch.ones(3), torch.ones(5), torch.ones(3), torch.ones(3, dtype=torch.int64)):
            step(given)
        step(torch.ones(3), times=4)
        step(torch.ones(3), times=4)

    assert counted(work) == 3 + 5 + 3 + 0 + 12 + 12
    work()  # and it runs where nothing is counted


def test_another_instance_of_a_method_is_counted_again() -> None:
    class Scaling(Algorithm):
        name: ClassVar[str] = "scaling"
        times: int = 1

        @counted_once
        def step(self, x: Tensor) -> None:
            for _ in range(self.times):
                _ = x * 2

    assert counted(lambda: [Scaling(times=times).step(torch.ones(3)) for times in (1, 4, 1)]) == 3 + 12 + 3


def test_a_failing_step_leaves_counting_as_it_was() -> None:
    @counted_once
    def step(x: Tensor) -> None:
        torch.linalg.cholesky(x)

    with ServerCounter() as counter:
        step(torch.eye(3))
        with pytest.raises(RuntimeError):
            step(-torch.eye(3))
        assert active_counter() is counter
        _ = torch.ones(2) + 1
    assert active_counter() is None
    assert counter.total == 9 + 2


# ---- the rules ------------------------------------------------------------------------------------------------------

X, Y, N = torch.rand(4, 5) + 1, torch.rand(4, 5) + 1, torch.arange(20).reshape(4, 5)
ROWS = torch.tensor([0, 2, 2])
RULES: dict[str, tuple[Callable[[], object], int]] = {
    "sum": (lambda: X + Y, 20),
    "sum with a factor": (lambda: torch.add(X, Y, alpha=-0.5), 40),
    "in place": (lambda: X.clone().sub_(Y, alpha=0.5), 40),
    "product": (lambda: 2 * X, 20),
    "exponential": (X.exp, 20),
    "broadcast": (lambda: X / Y[0], 20),
    "mean": (lambda: X.mean(0), 20),
    "variance": (lambda: X.var(1), 60),
    "norm": (lambda: torch.linalg.vector_norm(X), 40),
    "softmax": (lambda: X.softmax(1), 80),
    "interpolation": (lambda: torch.lerp(X, Y, 0.3), 60),
    "distances": (lambda: torch.cdist(X, Y[:3], compute_mode="donot_use_mm_for_euclid_dist"), 3 * 4 * 3 * 5),
    "sums by class": (lambda: torch.zeros(3, 5).index_add(0, ROWS, X[:3]), 15),
    "ReLU": (X.relu, 20),
    "limits": (lambda: (X.clamp(0, 1), torch.maximum(X, Y), X.round()), 60),
    "comparison": (lambda: X > Y, 0),
    "whole numbers": (lambda: N * 3 + N.sum(), 0),
    "selection": (lambda: torch.where(X > Y, X, -Y), 0),
    "copies": (lambda: torch.cat([X.clone(), Y[ROWS]]).abs().isfinite().all(), 0),
    "sorting": (lambda: (X.sort(0), X.median(), X.amax()), 0),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_works_element_by_element(rule: str) -> None:
    do, expected = RULES[rule]
    assert counted(do) == expected
    assert counted(do, Counter()) == 0  # not at clients


M, S, B = torch.rand(6, 4), torch.eye(4) + 0.1, torch.rand(4, 3)
PRODUCTS: dict[str, tuple[Callable[[], object], int]] = {
    "matrices": (lambda: M @ B, 2 * 6 * 4 * 3),
    "matrix and vector": (lambda: M @ S[0], 2 * 6 * 4),
    "vectors": (lambda: S[0] @ S[1], 2 * 4),
    "eigenvectors": (lambda: torch.linalg.eigh(S), 9 * 64),
    "eigenvectors of a stack": (lambda: torch.linalg.eigh(torch.stack([S, S])), 2 * 9 * 64),
    "eigenvalues": (lambda: torch.linalg.eigvalsh(S), 9 * 64),
    "singular vectors": (lambda: torch.linalg.svd(M, full_matrices=False), 14 * 6 * 16 + 8 * 64),
    "singular vectors of a wide matrix": (lambda: torch.linalg.svd(M.T), 14 * 6 * 16 + 8 * 64),
    "singular values": (lambda: torch.linalg.svdvals(M), 14 * 6 * 16 + 8 * 64),
    "QR": (lambda: torch.linalg.qr(M), 2 * (2 * 6 * 16 - 42)),
    "Cholesky": (lambda: torch.linalg.cholesky(S), 21),
    "solution": (lambda: torch.linalg.solve(S, B), 42 + 2 * 16 * 3),
    "inverse": (lambda: torch.linalg.inv(S), 128),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_and_factorisations_count_the_same_at_clients_and_server(product: str) -> None:
    do, expected = PRODUCTS[product]
    assert counted(do) == counted(do, Counter()) == expected
