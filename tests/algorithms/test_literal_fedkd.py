"""FedKD's transcription, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from .literal import Params, PartedClient, Rule, fedkd
from .literal.fedkd import Factors, energy_threshold, factorised, truncated
from .parted_toys import ce, derivative, first, kl, make, none, sigmoid, small, small_body, small_head, vector, whole


def client_with(q: list[float], client: PartedClient) -> PartedClient:
    client.params["projection.weight"] = vector(*q)[:, None]
    return client


def diagonal(*values: float) -> Tensor:
    return torch.diag(vector(*values))


def test_the_threshold_reaches_its_end_in_the_last_round() -> None:
    assert energy_threshold(1, 10, 0.95, 0.98) == pytest.approx(0.953)
    assert energy_threshold(10, 10, 0.95, 0.98) == pytest.approx(0.98)


@pytest.mark.parametrize(
    ("threshold", "kept"),
    [
        (0.5, [4.0, 0.0, 0.0, 0.0, 0.0]),  # the squares are 16, 4, 4, 1 and 0, together 25
        (0.63, [4.0, 0.0, 0.0, 0.0, 0.0]),
        (0.65, [4.0, 2.0, 0.0, 0.0, 0.0]),
        (0.97, [4.0, 2.0, 2.0, 1.0, 0.0]),  # factors of rank 4 are 40 numbers: dense
    ],
)
def test_the_smallest_rank_with_that_share_of_the_energy(threshold: float, kept: list[float]) -> None:
    value = truncated(diagonal(4.0, 2.0, 2.0 - 1e-9, 1.0, 0.0), threshold)
    assert torch.allclose(value, diagonal(*kept), rtol=0, atol=1e-8)


def test_exactly_that_share_is_not_enough() -> None:
    value = torch.diag(vector(2.0, 2.0 - 1e-9, *[0.0] * 6))
    assert factors(value, 0.49) == 1
    assert factors(torch.diag(vector(2.0, 2.0, *[0.0] * 6)), 0.5) == 2


def factors(value: Tensor, threshold: float) -> int:
    piece = factorised(value, threshold)
    assert isinstance(piece, Factors)
    return len(piece.sigma)


def test_factors_that_save_nothing_are_not_sent() -> None:
    # rank 2 of 4 x 4: 16 numbers, as many as the matrix has; rank 2 of 5 x 4: 18 of 20, or as many with Sigma
    square = diagonal(3.0, 2.0, 0.5, 0.0)
    assert torch.equal(truncated(square, 0.9, "folded"), square)
    long = torch.cat([square, torch.zeros(1, 4, dtype=torch.float64)])
    assert truncated(long, 0.9, "folded")[2, 2].item() == pytest.approx(0, abs=1e-12)
    assert torch.equal(truncated(long, 0.9, "vector"), long)


def test_vectors_and_numbers_are_sent_as_they_are() -> None:
    assert truncated(vector(1.0, 2.0), 0.1).tolist() == [1.0, 2.0]
    assert truncated(torch.tensor(3.0, dtype=torch.float64), 0.1).item() == 3.0


def test_zeros_stay_zeros() -> None:
    assert torch.equal(truncated(torch.zeros(5, 6, dtype=torch.float64), 0.95), torch.zeros(5, 6, dtype=torch.float64))


def test_more_dimensions_are_a_matrix_of_the_first_and_the_rest() -> None:
    left, right = vector(1.0, 2.0, 3.0), vector(1.0, -1.0, 2.0, 0.5)
    value = (left[:, None] * right).reshape(3, 2, 2)
    noise = torch.zeros(3, 2, 2, dtype=torch.float64)
    noise[0, 0, 1] = 0.5
    u, s, v = torch.linalg.svd((value + noise).reshape(3, 4))
    expected = s[0] * u[:, :1] @ v[:1]
    assert torch.allclose(truncated(value + noise, 0.5), expected.reshape(3, 2, 2), rtol=0, atol=1e-12)
    assert torch.allclose(truncated(value, 0.999), value, rtol=0, atol=1e-12)  # it has rank 1


def test_a_step_by_hand_with_one_client_alone() -> None:
    w, v, a, b, q, x = 1.0, 2.0, 0.5, 3.0, 1.5, 0.5
    client = client_with([q], make([w], [v], [x]))
    run = fedkd([client], [[0]], first(1), Rule(1.0), small_body, small_head, small(a, b))
    (server,), (held,) = run.server, run.held

    s_t, s_s = sigmoid(v * w * x), sigmoid(b * a * x)
    ce_t, ce_s = ce(v * w * x), ce(b * a * x)
    both = ce_t + ce_s
    off = w * x - q * a * x
    # d/dz of CE_t + (KL + MSE) / (CE_t + CE_s), and d/drep of MSE / (CE_t + CE_s)
    dz = (s_t - 1) * (1 - (kl(s_s, s_t) + off**2) / both**2) + (s_t - s_s) / both
    assert held["head.v"].item() == pytest.approx(v - dz * w * x)
    assert held["body.w"].item() == pytest.approx(w - (dz * v + 2 * off / both) * x)
    dz = (s_s - 1) * (1 - (kl(s_t, s_s) + off**2) / both**2) + (s_s - s_t) / both
    assert held["small_head.v"].item() == pytest.approx(b - dz * a * x)
    assert held["small_body.w"].item() == pytest.approx(a - (dz * b - 2 * off * q / both) * x)
    assert held["projection.weight"].item() == pytest.approx(q + 2 * off * a * x / both)
    assert server["small_body.w"].item() == pytest.approx(held["small_body.w"].item())
    assert list(server) == ["small_body.w", "small_head.v"]  # W_h stays at home


def test_the_error_is_a_mean_over_samples_and_dimensions() -> None:
    w, v, q = [1.0, -0.5], [2.0, 1.0], [1.5, 0.25]
    a, b, xs = 0.5, 3.0, [0.5, 1.25]
    clients = [client_with(q, make(w, v, xs))]
    (held,) = fedkd(clients, [[0]], whole(clients), Rule(1.0), small_body, small_head, small(a, b)).held

    def loss_mentor(w_1: float) -> float:
        z_t = [(v[0] * w[0] + v[1] * w_1) * x for x in xs]
        z_s = [b * a * x for x in xs]
        ce_t = sum(ce(z) for z in z_t) / 2
        # of the mentee nothing depends on w
        both = ce_t + sum(ce(z) for z in z_s) / 2
        learnt = sum(kl(sigmoid(s), sigmoid(t)) for s, t in zip(z_s, z_t, strict=True)) / 2
        mse = sum((w[0] - q[0] * a) ** 2 * x**2 + (w_1 - q[1] * a) ** 2 * x**2 for x in xs) / 4
        return ce_t + (learnt + mse) / both

    assert held["body.w"][1].item() == pytest.approx(w[1] - derivative(loss_mentor, w[1]), abs=1e-8)


def test_projection_and_mentee_are_one_group() -> None:
    rules = (Rule(1.0), Rule(1.0, clip_norm=0.01))
    steps = []
    for rule in [rules[0], rules[1]]:
        client = client_with([1.5], make([1.0], [2.0], [0.5]))
        (held,) = fedkd([client], [[0]], first(1), rules[0], small_body, small_head, small(0.5, 3.0), rule).held
        started = {**small(0.5, 3.0), "projection.weight": torch.tensor([[1.5]], dtype=torch.float64)}
        steps.append([held[name].item() - started[name].item() for name in started])
        assert held["body.w"].item() != 1.0
    norm = sum(step**2 for step in steps[0]) ** 0.5
    assert steps[1] == pytest.approx([step * 0.01 / (norm + 1e-6) for step in steps[0]], abs=1e-14)


def matrix_body(params: Params, x: Tensor) -> Tensor:
    return x @ params["small_body.weight"].T


def matrix_clients() -> list[PartedClient]:
    def body(params: Params, x: Tensor) -> Tensor:
        return x * params["body.w"]

    xs = [[[1.0, 2.0, 0.5, -1.0], [0.5, -1.0, 1.0, 0.25]], [[-1.0, 0.5, 2.0, 1.0], [1.5, 1.0, -0.5, 0.5]]]
    clients = []
    for x in xs:
        client = make([1.0, 0.5, 1.0, 2.0], [1.0, -1.0, 0.5, 0.25], [0.0, 0.0], [0, 1])
        client.body, client.x = body, torch.tensor(x, dtype=torch.float64)
        client.params["projection.weight"] = torch.eye(4, dtype=torch.float64)
        clients.append(client)
    return clients


def matrix_small() -> Params:
    return {"small_body.weight": diagonal(4.0, 1.0, 0.5, 0.0), "small_head.v": vector(1.0, 0.5, -0.5, 1.0)}


def test_a_round_without_training_changes_nothing() -> None:
    run = fedkd(matrix_clients(), [[0], [0, 1]], none, Rule(1.0), matrix_body, small_head, matrix_small())
    before = matrix_small()
    for mentee in (*run.server, run.held[0], run.held[1]):
        assert all(torch.equal(mentee[name], before[name]) for name in before)


def test_server_and_clients_add_the_truncated_mean_of_truncated_updates() -> None:
    clients = matrix_clients()
    before, name = matrix_small(), "small_body.weight"
    run = fedkd(
        clients, [[0, 1], [0]], whole(clients), Rule(0.1), matrix_body, small_head, before, t_start=0.5, t_end=0.5
    )
    once = fedkd(clients, [[0, 1]], whole(clients), Rule(0.1), matrix_body, small_head, before, t_start=0.5, t_end=0.5)
    ends = [params[name] - before[name] for params in once.held]
    mean = sum(leading(end) for end in ends) / torch.tensor(2.0, dtype=torch.float64)
    expected = before[name] + leading(mean)
    assert not torch.allclose(leading(mean), mean, rtol=0, atol=1e-6)
    assert torch.allclose(run.server[0][name], expected, rtol=0, atol=1e-12)
    assert run.shared[0] is not None and torch.equal(run.shared[0][name], run.server[0][name])
    vectors = (once.held[0]["small_head.v"] + once.held[1]["small_head.v"]) / 2
    assert torch.allclose(run.server[0]["small_head.v"], vectors, rtol=0, atol=1e-12)


def leading(value: Tensor) -> Tensor:
    """Its part of rank 1, which has half of the energy."""
    u, s, v = torch.linalg.svd(value)
    assert s[0] ** 2 > 0.5 * (s**2).sum()
    return torch.as_tensor(s[0] * torch.outer(u[:, 0], v[0]))


def test_who_missed_rounds_is_sent_them_while_they_are_shorter_than_the_mentee() -> None:
    # The mentee is 4 x 4 and 4: 20 numbers. An update of rank 1 is 8 and 4, or 16 and 4 where it is dense.
    clients = matrix_clients()
    run = fedkd(
        clients, [[0], [0], [1], [1], [0], [1]], whole(clients), Rule(0.1), matrix_body, small_head, matrix_small(),
        t_start=0.5, t_end=0.5, diagonal="folded",
    )  # fmt: skip
    # Client 0 misses rounds 3 and 4, and is sent those of rounds 2 to 4; client 1 misses round 5.
    assert run.downloaded == [{0: 20}, {0: 12}, {1: 20}, {1: 12}, {0: 20}, {1: 20}]
    assert run.uploaded == [{0: 12}, {0: 12}, {1: 12}, {1: 12}, {0: 12}, {1: 12}]


def test_the_threshold_grows_with_the_round() -> None:
    # T(1) = .5 and T(2) = .9 of two rounds, or T(1) = .3 of four; an update of rank 1 is 8 numbers, a dense one 16.
    def uploaded(rounds: int) -> list[int]:
        clients = matrix_clients()
        found = fedkd(
            clients, [[0], [0]], whole(clients), Rule(0.1), matrix_body, small_head, matrix_small(),
            t_start=0.0, t_end=0.999, rounds=rounds, diagonal="folded",
        )  # fmt: skip
        return [count for sent in found.uploaded for count in sent.values()]

    assert uploaded(2) == [12, 20]
    assert uploaded(4) == [12, 12]
