"""One client's round: what learns, what is frozen, which data are seen, and what comes out."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from potluck.contract import Batch, Group, Networks, Phase, Received, Round
from potluck.engines.worker import Worker, _weights_are_finite
from potluck.errors import AlgorithmError, ConfigError, DataError, ModelError, TrainingError
from potluck.metrics.flops import training_cost
from potluck.payload import Payload

from .made_up import (
    CLASSES,
    IMAGES,
    ROWS,
    MadeUp,
    Mean,
    changed,
    cross_entropy,
    full_model,
    image_model,
    initial,
    job,
    member,
    model,
    plain_model,
    samples,
    setting,
    spy,
    train,
)  # fmt: skip

# ---- what learns and what is frozen ---------------------------------------------------------------------------------


@pytest.mark.parametrize("learning", [("body",), ("head",), ("body", "head")])
@pytest.mark.parametrize(("shape", "net"), [(ROWS, full_model()), (IMAGES, image_model())], ids=["rows", "images"])
def test_what_a_phase_freezes_is_the_same_to_the_bit(
    shape: tuple[int, ...], net: nn.Module, learning: tuple[str, ...]
) -> None:
    given = setting(MadeUp(then=[Phase(train=learning, loss=cross_entropy, epochs=3)]), shape)
    client = member(net, shape=shape)
    before = initial(given, client)
    moved = changed(before, train(given, client).state)
    assert all(path.startswith(learning) for path in moved)
    if "head" in learning:
        assert {"head.weight", "head.bias"} <= moved
    if "body" in learning:
        statistics = {"body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"}
        assert {"body.0.weight", "body.1.weight"} | statistics <= moved


def test_learning_networks_train_and_frozen_ones_evaluate_without_gradients() -> None:
    seen: list[Any] = []

    def look(net: Networks, batch: Batch, received: Received) -> Any:
        return {
            name: ({part.training for part in module.modules()}, {p.requires_grad for p in module.parameters()})
            for name, module in net.modules.items()
        }

    phases = [Phase(train=(name,), loss=spy(seen, look), epochs=1) for name in ("head", "body")]
    train(setting(MadeUp(then=phases), batch_size=20), member(full_model()))
    on, off = ({True}, {True}), ({False}, {False})
    assert seen == [{"body": off, "head": on}, {"body": on, "head": off}]


def test_a_frozen_network_keeps_its_statistics_and_drops_nothing() -> None:
    given = setting(MadeUp(then=[Phase(train=("head",), loss=cross_entropy)]), batch_size=10)
    client = member(full_model())
    loss = train(given, client).loss
    net = Networks(Worker(given).networks(job(client)))
    x, y = samples(10)
    assert loss == pytest.approx(F.cross_entropy(net(x), y).item(), rel=1e-12)
    trained = setting(MadeUp(), batch_size=10)
    assert abs(train(trained, client).loss - loss) > 1e-3


def test_batch_statistics_follow_the_rule() -> None:
    given = setting(MadeUp(), batch_size=10, learning_rate=1e-9)
    state = train(given, member(full_model())).state
    with torch.no_grad():
        features = full_model()[0](samples(10)[0])  # type: ignore[index]
    assert torch.allclose(state["body.1.running_mean"], 0.1 * features.mean(0), atol=1e-7)
    assert torch.allclose(state["body.1.running_var"], 0.9 + 0.1 * features.var(0), atol=1e-7)
    assert int(state["body.1.num_batches_tracked"]) == 1


def test_the_client_s_own_model_is_never_touched() -> None:
    net = full_model()
    before = copy.deepcopy(net.state_dict())
    train(setting(MadeUp()), member(net))
    assert all(torch.equal(tensor, before[path]) for path, tensor in net.state_dict().items())


# ---- steps ----------------------------------------------------------------------------------------------------------


def test_a_round_is_gradient_descent_with_momentum_fresh_in_every_phase() -> None:
    """Two phases of two full-batch epochs each, against the same steps written out."""
    phase = Phase(train=("body", "head"), loss=cross_entropy, epochs=2)
    given = setting(MadeUp(then=[phase, phase]), batch_size=100, momentum=0.9, learning_rate=0.3)
    net, (x, y) = plain_model(), samples(10)
    found = train(given, member(net)).state
    for _ in range(2):
        velocity = [torch.zeros_like(p) for p in net.parameters()]
        for _ in range(2):
            gradients = torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
            for number, (parameter, gradient) in enumerate(zip(net.parameters(), gradients, strict=True)):
                velocity[number] = 0.9 * velocity[number] + gradient
                parameter.data -= 0.3 * velocity[number]
    expected = dict(zip(("body.0.weight", "body.0.bias", "head.weight", "head.bias"), net.parameters(), strict=True))
    for path, tensor in expected.items():
        assert torch.allclose(found[path], tensor, rtol=1e-12, atol=1e-12)


def test_epochs_are_the_phase_s_own_or_the_run_s() -> None:
    seen: list[Any] = []
    phases = [
        Phase(train=("head",), loss=spy(seen, lambda *_: "run")),
        Phase(train=("head",), loss=spy(seen, lambda *_: "own"), epochs=2),
    ]
    train(setting(MadeUp(then=phases), epochs=3, batch_size=5), member(plain_model()))
    assert seen == ["run"] * 6 + ["own"] * 4


def test_the_schedule_sets_the_rate_of_a_round() -> None:
    client, moves = member(plain_model()), []
    for number in (1, 2, 3):
        given = setting(MadeUp(), batch_size=100, schedule="exponential:0.5")
        before = initial(given, client)
        moves.append(train(given, client, number=number).state["head.bias"] - before["head.bias"])
    assert torch.allclose(moves[1], moves[0] / 2, rtol=1e-12)
    assert torch.allclose(moves[2], moves[0] / 4, rtol=1e-12)


class Mixer(nn.Module):
    """A number per class, from 0 to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.full((CLASSES,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.share


def mixed(net: Networks, batch: Batch, received: Received) -> Tensor:
    return batch.cross_entropy(net.mixer(net(batch.x)))


def test_a_projected_group_stays_in_its_bounds() -> None:
    seen: list[Tensor] = []

    def loss(net: Networks, batch: Batch, received: Received) -> Tensor:
        seen.append(next(net.modules["mixer"].parameters()).detach().clone())
        return mixed(net, batch, received)

    group = Group(("mixer",), learning_rate=20.0, project=lambda w: w.clamp(0, 1))
    given = setting(MadeUp(added=lambda: {"mixer": Mixer()}, then=[Phase(train=("body", "head", group), loss=loss)]))
    share = train(given, member(plain_model())).state["mixer.share"]
    values = torch.cat([*seen, share])
    assert float(values.min()) == 0 or float(values.max()) == 1
    assert 0 <= float(values.min()) <= float(values.max()) <= 1
    assert share.tolist() != [0.5, 0.5, 0.5]


# ---- data -----------------------------------------------------------------------------------------------------------


def test_phases_see_the_data_they_name_and_only_training_data_are_augmented() -> None:
    shape = (1, 12, 12)
    net = model(nn.Flatten(), nn.Linear(144, 4), nn.Linear(4, CLASSES))
    data = {name: samples(6, shape, key) for key, name in enumerate(("train", "holdout", "public"))}
    seen: dict[str, list[Any]] = {name: [] for name in data}

    def look(_: Networks, batch: Batch, received: Received) -> Any:
        return batch

    phases = [Phase(train=("head",), loss=spy(seen[name], look), data=name) for name in data]  # type: ignore[arg-type]
    given = setting(MadeUp(then=phases), shape, augmentation="release", public=data["public"], batch_size=6)
    train(given, member(net, shape=shape, train=data["train"], holdout=data["holdout"]))
    for name, (batch,) in seen.items():
        x, y = data[name]
        assert torch.equal(batch.x, x[batch.index]) == (name != "train")
        assert torch.equal(batch.y, y[batch.index])


def test_a_phase_without_data_is_an_error_that_names_the_client() -> None:
    phase = [Phase(train=("head",), loss=cross_entropy, data="holdout")]
    with pytest.raises(DataError, match="client 3 has no holdout samples"):
        train(setting(MadeUp(then=phase)), member(plain_model(), number=3))
    phase = [Phase(train=("head",), loss=cross_entropy, data="public")]
    with pytest.raises(ConfigError, match="needs public data"):
        train(setting(MadeUp(then=phase)), member(plain_model()))


def test_a_phase_that_trains_what_is_not_there_is_an_error() -> None:
    with pytest.raises(ModelError, match="mixer"):
        train(setting(MadeUp(then=[Phase(train=("mixer",), loss=cross_entropy)])), member(plain_model()))


def test_adapting_comes_first_and_its_loss_is_not_the_round_s() -> None:
    seen: list[Any] = []
    first = Phase(train=("head",), loss=spy(seen, lambda *_: "adapt"), epochs=1)
    then = Phase(train=("body",), loss=spy(seen, lambda *_: "round"), epochs=1)
    given = setting(MadeUp(before=[first], then=[then]), batch_size=10)
    client = member(plain_model())
    outcome = train(given, client)
    assert seen == ["adapt", "round"]
    alone = train(setting(MadeUp(then=[first]), batch_size=10), client)
    assert outcome.loss < alone.loss  # measured after adapting
    again = train(setting(MadeUp(then=[then]), batch_size=10), client, held=alone.state)
    assert outcome.loss == pytest.approx(again.loss, rel=1e-12)


def test_a_round_may_have_no_phases_or_adapt_alone() -> None:
    client = member(plain_model())
    nothing = train(setting(MadeUp(then=[])), client)
    assert nothing.loss != nothing.loss and nothing.flops == 0
    assert changed(initial(setting(MadeUp()), client), nothing.state) == set()
    adapted = train(setting(MadeUp(before=[Phase(train=("head",), loss=cross_entropy)], then=[])), client)
    assert adapted.loss != adapted.loss and adapted.flops > 0


def test_the_loss_is_the_mean_over_samples_not_over_batches() -> None:
    given = setting(MadeUp(), learning_rate=1e-12, batch_size=4)
    x, y = samples(9)
    expected = F.cross_entropy(plain_model()(x), y).item()
    assert train(given, member(plain_model(), count=9)).loss == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("net", "expected"), [(plain_model(), [4, 4, 1]), (full_model(), [4, 4])])
def test_a_last_batch_of_one_is_left_out_where_batch_norm_learns(net: nn.Module, expected: list[int]) -> None:
    seen: list[int] = []
    phases = [Phase(train=("body", "head"), loss=spy(seen, lambda _, batch, __: len(batch.y)))]
    train(setting(MadeUp(then=phases)), member(net, count=9))
    assert seen == expected


def test_a_last_batch_of_one_is_kept_where_batch_norm_is_frozen() -> None:
    seen: list[int] = []
    phases = [Phase(train=("head",), loss=spy(seen, lambda _, batch, __: len(batch.y)))]
    train(setting(MadeUp(then=phases)), member(full_model(), count=9))
    assert seen == [4, 4, 1]


def test_a_single_sample_is_enough_unless_batch_norm_needs_more() -> None:
    assert train(setting(MadeUp()), member(plain_model(), count=1)).loss > 0
    assert train(setting(MadeUp(), IMAGES), member(image_model(), 1, IMAGES)).loss > 0  # many pixels per channel
    with pytest.raises(DataError, match="client 5 learns from a single sample"):
        train(setting(MadeUp()), member(full_model(), count=1, number=5))
    with pytest.raises(DataError, match="batch_size of at least 2"):
        train(setting(MadeUp(), batch_size=1), member(full_model(), count=4))


def test_another_value_error_of_a_loss_is_not_blamed_on_batch_norm() -> None:
    def wrong(net: Networks, batch: Batch, received: Received) -> Tensor:
        raise ValueError("of its own")

    for net, count in ((plain_model(), 1), (full_model(), 4)):
        with pytest.raises(
            AlgorithmError, match=r"wrong \(the loss of phase 0\) for client 0 .*ValueError: of its own"
        ):
            train(setting(MadeUp(then=[Phase(train=("body",), loss=wrong)])), member(net, count=count))


# ---- what comes out -------------------------------------------------------------------------------------------------


def test_collecting_sums_over_all_samples_in_evaluation() -> None:
    given = setting(Mean(), batch_size=500)
    outcome = train(given, member(full_model(), count=2300))
    net = Networks(Worker(given).networks(job(member(full_model()), outcome.state)))
    with torch.no_grad():
        expected = net.body(samples(2300)[0]).sum(0)
    assert torch.allclose(outcome.upload.tensors["sum"], expected, rtol=1e-12)
    assert float(outcome.upload.tensors["count"]) == 2300
    assert outcome.upload.meta == {"samples": 2300}
    assert not outcome.upload.tensors["sum"].requires_grad
    assert changed(outcome.state, net.state()) == set()


def test_operations_are_those_of_all_phases_epochs_and_of_collecting() -> None:
    phases = [
        Phase(train=("body", "head"), loss=cross_entropy, epochs=3),
        Phase(train=("head",), loss=cross_entropy, epochs=2),
    ]
    client, given = member(plain_model(), count=10), setting(Mean(then=phases))
    modules = Worker(given).networks(job(client))
    costs = [training_cost(modules, phase, {}, given.task, given.dtype).of([4, 4, 2]) for phase in phases]
    assert train(given, client).flops == 3 * costs[0] + 2 * costs[1] + 10 * 2 * (4 * 5)


class Live(MadeUp):
    """Sends the very weights that it trains, where it should have sent copies."""

    def upload(self, net: Networks, collected: Any, received: Received, samples: int, round: Round) -> Payload:
        return Payload(net.parameters("head"), {"samples": samples})


def test_what_a_client_sends_does_not_change_when_the_next_one_trains() -> None:
    worker = Worker(setting(Live()))
    clients = [member(plain_model(), number=number) for number in (0, 1)]
    first = worker.train(Round(1, 1), job(clients[0]))
    sent = {name: tensor.clone() for name, tensor in first.upload.tensors.items()}
    held = {name: tensor.clone() for name, tensor in first.state.items()}
    worker.train(Round(1, 1), job(clients[1]))
    assert changed(sent, dict(first.upload.tensors)) == set()
    assert changed(held, first.state) == set()
    assert not any(tensor.requires_grad for tensor in first.upload.tensors.values())


def test_shared_weights_that_arrive_are_loaded_and_nothing_else_is() -> None:
    client, given = member(plain_model()), setting(MadeUp(sent=("head",), then=[]))
    before = initial(given, client)
    arriving = {name: torch.full_like(tensor, 7) for name, tensor in before.items()}
    payload = Payload({**arriving, "headless": torch.ones(1)})
    after = train(given, client, payload=payload).state
    assert changed(before, after) == {"head.weight", "head.bias"}
    assert float(after["head.bias"][0]) == 7
    # Who only evaluates keeps what it holds.
    held = Networks(Worker(given).networks(job(client, payload=payload))).state()
    assert changed(before, held) == set()


def test_shared_weights_that_do_not_fit_are_refused() -> None:
    for name, tensor in (("head.bias", torch.zeros(1)), ("head.scale", torch.zeros(CLASSES))):
        with pytest.raises(ModelError, match=name):
            train(setting(MadeUp(sent=("head",))), member(plain_model()), payload=Payload({name: tensor}))


def test_what_arrives_cannot_be_changed_by_a_client() -> None:
    def vandal(net: Networks, batch: Batch, received: Received) -> Tensor:
        received["wish"].zero_()
        return cross_entropy(net, batch, received)

    payload = Payload({"wish": torch.ones(3)})
    train(setting(MadeUp(then=[Phase(train=("head",), loss=vandal)])), member(plain_model()), payload=payload)
    assert payload.tensors["wish"].tolist() == [1, 1, 1]


def test_losses_see_what_was_received() -> None:
    seen: list[Any] = []
    phases = [Phase(train=("head",), loss=spy(seen, lambda _, __, received: received["wish"].tolist()))]
    train(setting(MadeUp(then=phases), batch_size=10), member(plain_model()), payload=Payload({"wish": torch.ones(2)}))
    assert seen == [[1, 1]]


class Counting(nn.Module):
    """Counts its training steps in a buffer that a state_dict leaves out, and adds the count."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.count = self.count + 1
        return x + self.count


def test_clients_share_no_state_through_a_worker() -> None:
    worker = Worker(setting(MadeUp()))
    clients = [member(model(Counting(), nn.Linear(4, 5), nn.Linear(5, CLASSES)), number=n) for n in (0, 1)]
    alone = Worker(setting(MadeUp())).train(Round(1, 1), job(clients[1]))
    first = worker.train(Round(1, 1), job(clients[0]))
    second = worker.train(Round(1, 1), job(clients[1]))
    assert changed(alone.state, second.state) == set()
    assert float(first.state["body.0.count"]) == 3
    third = worker.train(Round(2, 2), job(clients[0], first.state))
    assert float(third.state["body.0.count"]) == 6


def test_clients_of_one_architecture_start_from_weights_of_their_own() -> None:
    given = setting(MadeUp(then=[]))
    worker = Worker(given)
    clients = [member(plain_model(key), number=key) for key in range(12)]
    for client in (*clients, *clients):
        state = worker.train(Round(1, 1), job(client)).state
        assert torch.equal(state["head.weight"], plain_model(client.id)[2].weight)  # type: ignore[index]


@pytest.mark.parametrize(("factor", "rate"), [(float("nan"), 1e-3), (1e300, 1e10)], ids=["loss", "weights"])
def test_numbers_that_are_not_finite_stop_the_round(factor: float, rate: float) -> None:
    def broken(net: Networks, batch: Batch, received: Received) -> Tensor:
        return cross_entropy(net, batch, received) * factor

    given = setting(MadeUp(then=[Phase(train=("head",), loss=broken)]), batch_size=100, learning_rate=rate)
    with pytest.raises(TrainingError, match="client 4 in round 7"):
        train(given, member(plain_model(), number=4), number=7)


class Masked(nn.Module):
    """Holds infinities, as masks of attention do."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.softmax(self.mask, 1)


@pytest.mark.parametrize(
    ("values", "finite"),
    [([1.0, 2.0], True), ([3e38, 3e38], True), ([1.0, math.nan], False), ([math.inf, -math.inf], False)],
)
def test_weights_are_finite_also_where_their_sum_is_not(values: list[float], finite: bool) -> None:
    net = nn.Linear(2, 1, bias=False)
    net.weight.data[0] = torch.tensor(values)
    assert _weights_are_finite(Networks({"body": net})) == finite


def test_infinities_that_were_there_before_are_no_failure() -> None:
    masked = model(Masked(), nn.Linear(4, 5), nn.Linear(5, CLASSES))
    assert train(setting(MadeUp()), member(masked)).loss > 0


# ---- randomness -----------------------------------------------------------------------------------------------------


def test_a_round_depends_on_seed_round_client_and_nothing_else() -> None:
    def result(seed: int = 0, number: int = 1, client: int = 0) -> Tensor:
        data = samples(10)  # the same for every client
        net = member(full_model(), number=client, train=data)
        return train(setting(MadeUp(), seed=seed), net, number=number).state["head.weight"]

    base = result()
    torch.manual_seed(123)
    assert torch.equal(base, result())
    for other in (result(seed=1), result(number=2), result(client=1)):
        assert not torch.equal(base, other)


def test_phases_draw_differently() -> None:
    seen: list[Any] = []
    phase = Phase(train=("head",), loss=spy(seen, lambda _, batch, __: batch.key.tolist()))
    train(setting(MadeUp(before=[phase], then=[phase]), batch_size=10), member(plain_model()))
    assert not set(seen[0]) & set(seen[1])


def test_training_and_counting_leave_the_global_generator_alone() -> None:
    client = member(full_model())
    torch.manual_seed(0)
    before = torch.get_rng_state()
    train(setting(MadeUp()), client)
    assert torch.equal(torch.get_rng_state(), before)


# ---- evaluation -----------------------------------------------------------------------------------------------------


def test_evaluation_changes_nothing() -> None:
    given, client = setting(Mean()), member(full_model(), validation=samples(5, key=9))
    worker = Worker(given)
    outcome = worker.train(Round(1, 1), job(client))
    held = {name: tensor.clone() for name, tensor in outcome.state.items()}
    payload = Payload({"wish": torch.ones(3)})
    first = worker.evaluate(job(client, outcome.state, payload))
    between = Networks(worker.networks(job(client, outcome.state, payload))).state()
    second = worker.evaluate(job(client, outcome.state, payload))
    logits = worker.predict(job(client, outcome.state, payload), samples(5)[0])
    assert first == second == outcome.evaluation
    assert changed(held, outcome.state) == changed(held, between) == set()
    assert changed(held, Networks(worker.networks(job(client, outcome.state))).state()) == set()
    assert torch.equal(logits, worker.predict(job(client, outcome.state), samples(5)[0]))
    assert payload.tensors["wish"].tolist() == [1, 1, 1]


def test_scores_are_those_of_the_networks_that_a_client_holds() -> None:
    given = setting(MadeUp(), epochs=5)
    client = member(full_model(), test=samples(1203, key=5), validation=samples(50, key=6))
    worker = Worker(given)
    outcome = worker.train(Round(1, 1), job(client))
    net = Networks(worker.networks(job(client, outcome.state)))
    evaluation = outcome.evaluation
    for found, (x, y) in ((evaluation.test, samples(1203, key=5)), (evaluation.validation, samples(50, key=6))):
        assert found is not None
        assert found.samples == len(y)
        assert found.accuracy == pytest.approx(float((net(x).argmax(1) == y).double().mean()), abs=1e-12)
    assert worker.evaluate(job(member(full_model(), test=None))).test is None


def test_inputs_are_not_augmented_in_evaluation() -> None:
    shape = (1, 12, 12)
    net = model(nn.Flatten(), nn.Linear(144, 4), nn.Linear(4, CLASSES))
    x, _ = samples(6, shape)
    worker = Worker(setting(MadeUp(), shape, augmentation="release"))
    assert torch.allclose(worker.predict(job(member(net, shape=shape)), x), net(x), rtol=1e-12)


def test_predictions_come_for_any_number_of_inputs_and_can_be_used_further() -> None:
    worker, client = Worker(setting(MadeUp())), member(plain_model())
    for count in (0, 1, 2500):
        assert worker.predict(job(client), samples(count)[0]).shape == (count, CLASSES)
    logits = worker.predict(job(client), samples(3)[0])
    logits += 1
    assert not logits.requires_grad and not logits.is_inference()
    assert torch.allclose(logits - 1, plain_model()(samples(3)[0]), rtol=1e-12)


def test_networks_are_copies_ready_for_use() -> None:
    worker, client = Worker(setting(MadeUp())), member(full_model())
    worker.train(Round(1, 1), job(client))
    net = worker.networks(job(client))
    before = Networks(net).state()
    worker.train(Round(1, 1), job(client))
    assert changed(before, Networks(net).state()) == set()
    assert all(not module.training for module in net.values())
    assert all(p.requires_grad for module in net.values() for p in module.parameters())
    with torch.no_grad():
        net["head"].get_parameter("weight").zero_()
    assert bool(Networks(worker.networks(job(client))).state()["head.weight"].any())
