"""What every algorithm must hold to, so that every engine can run it: checked on a very small federation."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from potluck.algorithms import Algorithm, Upload
from potluck.algorithms.admission import check_upload
from potluck.config import RunConfig
from potluck.contract import Batch, Networks, Phase, Received, Round
from potluck.engines.memory import receive
from potluck.engines.randomness import CounterDropout
from potluck.errors import PayloadError, PotluckError
from potluck.federation import Federation
from potluck.payload import Payload
from potluck.testing.bench import Bench

_TOLERANCE = 1e-9


class ConformanceError(AssertionError):
    """An algorithm does not hold to the contract."""


def check_algorithm(algorithm: Algorithm) -> None:
    """Raise a :class:`ConformanceError` that says what is wrong with an algorithm, if anything is.

    Run it in the tests of an algorithm of your own:

    >>> from potluck.algorithms import algorithm
    >>> check_algorithm(algorithm("pfedes"))
    """
    _require(isinstance(algorithm, Algorithm), "give an instance of an algorithm, not its class")
    _settings_are_its_own(algorithm)
    try:
        _check(algorithm)
    except ConformanceError:
        raise
    except PotluckError as error:
        raise ConformanceError(f"it does not run: {error}") from error
    except Exception as error:  # a hook that is tried here by itself
        raise ConformanceError(f"it does not run: {type(error).__name__}: {error}") from error


def _check(algorithm: Algorithm) -> None:
    bench = Bench(algorithm)
    for check in (
        _payloads_survive_the_wire,
        _server_works_alone,
        _clients_receive_alike,
        _receiving_changes_nothing,
        _frozen_networks_stay,
        _padding_changes_nothing,
        _losses_can_be_stacked,
        _losses_know_no_round,
        _collecting_adds_up,
        _rubbish_is_refused,
        _evaluation_changes_nothing,
    ):
        check(bench)


def _settings_are_its_own(algorithm: Algorithm) -> None:
    # What Federation takes by name would never reach the algorithm.
    reserved = {*RunConfig.model_fields, *inspect.signature(Federation).parameters, "name"}
    taken = sorted(type(algorithm).model_fields.keys() & reserved)
    _require(not taken, f"its settings {taken} are names of settings that every run has: call them something else")
    for name, field in type(algorithm).model_fields.items():
        _require(bool(field.description), f"its setting {name!r} has no description")
        _require(not field.is_required(), f"its setting {name!r} has no default")


def _payloads_survive_the_wire(bench: Bench) -> None:
    for what, payload in (("broadcast", bench.job(0).payload), ("upload", _upload(bench, 0).payload)):
        arrived = Payload.decode(payload.encode())
        same = _equal(arrived.tensors, payload.tensors) and dict(arrived.meta) == dict(payload.meta)
        _require(same, f"its {what} is not the same after encoding and decoding")


def _server_works_alone(bench: Bench) -> None:
    """The server's side needs payloads, its own state and the task, and changes none of them in place."""
    algorithm, task = bench.algorithm, bench.federation.task
    state = algorithm.server_state(task)
    uploads = [_upload(bench, client) for client in (0, 1, 3)]
    arrived = [Upload(upload.client, Payload.decode(upload.payload.encode())) for upload in uploads]
    before = {name: tensor.clone() for name, tensor in bench.federation.server.items()}
    for upload in arrived:
        check_upload(algorithm, upload, bench.federation.server, task)
    first = algorithm.aggregate(bench.federation.server, arrived, bench.round, task)
    second = algorithm.aggregate(bench.federation.server, uploads, bench.round, task)
    _require(_equal(before, bench.federation.server), "aggregate changes the server's state in place")
    _require(_equal(first, second), "aggregate gives another result for the same uploads, or changes them")
    for name in state.keys() & first.keys():
        # A list may grow; what is a table, or one number, at first stays one.
        grows = int(state[name].shape[:1] == (0,))
        same = first[name].shape[grows:] == state[name].shape[grows:]
        _require(same, f"aggregate changes the shape of {name!r} in the server's state")


def _clients_receive_alike(bench: Bench) -> None:
    shapes = [{name: tuple(tensor.shape) for name, tensor in bench.received(client).items()} for client in range(4)]
    _require(all(shape == shapes[0] for shape in shapes), "what clients receive differs in names or shapes: use masks")


def _receiving_changes_nothing(bench: Bench) -> None:
    """What arrives, and what a client remembers, is read and no more."""
    for client in range(4):
        _receives_twice(bench, client)


def _receives_twice(bench: Bench, client: int) -> None:
    job = bench.job(client)
    held = copy.deepcopy(job.held())
    job = replace(job, held=lambda: held)
    before, arrived = copy.deepcopy((held or {}, dict(job.payload.tensors)))
    first = copy.deepcopy(dict(receive(bench.algorithm, job, bench.federation.task)))
    second = receive(bench.algorithm, job, bench.federation.task)
    what = "receive_again" if bench.algorithm.remembers and held is not None else "receive"
    _require(_equal(before, held or {}), f"{what} changes what the client remembers")
    _require(_equal(arrived, job.payload.tensors), f"{what} changes what arrived")
    _require(_equal(first, second), f"{what} gives another result the second time")


def _frozen_networks_stay(bench: Bench) -> None:
    for number, phase in enumerate(bench.phases):
        net = bench.networks(0)
        _require(set(phase.learning) <= set(net.modules), f"phase {number} trains networks that clients do not hold")
        before = net.state()
        _loss_and_gradients(net, phase, bench.batch(0, phase), bench.received(0))
        frozen = [name for name in net.modules if name not in phase.learning]
        kept = all(torch.equal(before[path], tensor) for path, tensor in net.state(*frozen).items()) if frozen else True
        _require(kept, f"the loss of phase {number} changes a network that this phase freezes")


def _padding_changes_nothing(bench: Bench) -> None:
    for number, phase in enumerate(bench.phases):
        batch = bench.batch(0, phase)
        weight = torch.cat([batch.weight, torch.zeros(2, dtype=batch.weight.dtype)])
        extra = bench.batch(0, phase, size=6)
        padded = replace(extra, weight=weight)
        received = bench.received(0)
        plain = _loss_and_gradients(bench.networks(0), phase, batch, received)
        more = _loss_and_gradients(bench.networks(0), phase, padded, received)
        _require(_close(plain, more), f"the loss of phase {number} sees samples of weight 0: reduce with batch.mean")


def _losses_can_be_stacked(bench: Bench) -> None:
    """The loss of two clients under vmap is the loss of each alone, and so are the gradients."""
    for number, phase in enumerate(bench.phases):
        alone, nets, batches, received = [], [], [], []
        for client in (0, 2):
            nets.append(bench.networks(client))
            batches.append(bench.batch(client, phase))
            received.append(bench.received(client))
            alone.append(_loss_and_gradients(nets[-1], phase, batches[-1], received[-1]))
        try:
            together = _stacked(phase, nets, batches, received)
        except RuntimeError as error:
            raise ConformanceError(f"the loss of phase {number} does not run under vmap: {error}") from error
        for client, expected in enumerate(alone):
            found = {name: tensor[client] for name, tensor in together.items()}
            _require(_close(expected, found), f"the loss of phase {number} under vmap is not the loss alone")


def _losses_know_no_round(bench: Bench) -> None:
    """What a loss knows of the round it is told by ``received``: an engine may record it once and replay it."""
    for one, other in zip(bench.algorithm.phases(bench.round), bench.algorithm.phases(Round(4, 9, 1)), strict=False):
        values = [
            _loss_and_gradients(bench.networks(0), phase, bench.batch(0, phase), bench.received(0))
            for phase in (one, other)
        ]
        _require(_close(*values), "a loss depends on the round other than through what was received")


def _collecting_adds_up(bench: Bench) -> None:
    """A statistic of a batch is the sum of those of its parts; samples of weight 0 have none, nor has the round."""
    name = bench.algorithm.collects
    if name is None:
        return
    phase = Phase(train=(), loss=bench.algorithm.cross_entropy, data=name)
    whole, received = bench.batch(0, phase), bench.received(0)
    collect = functools.partial(_collect, bench, received)
    bench.algorithm.phases(bench.round)
    parts = [collect(_rows(whole, rows)) for rows in (slice(0, 1), slice(1, 4))]
    together = collect(whole)
    for key, value in together.items():
        _require(torch.allclose(parts[0][key] + parts[1][key], value), f"what it collects as {key!r} does not add up")
    padded = bench.batch(0, phase, size=6)
    weight = torch.cat([whole.weight, torch.zeros(2, dtype=whole.weight.dtype)])
    _require(_close(together, collect(replace(padded, weight=weight))), "what it collects sees samples of weight 0")
    bench.algorithm.phases(Round(4, 9, 1))  # where an algorithm might note its round
    _require(
        _close(together, collect(whole)), "what it collects depends on the round other than through what was received"
    )


def _collect(bench: Bench, received: Received, batch: Batch) -> dict[str, Tensor]:
    net = bench.networks(0)
    for module in net.modules.values():
        module.eval()
    with torch.no_grad():
        return bench.algorithm.collect(net, batch, received)


def _rows(batch: Batch, rows: slice) -> Batch:
    views = tuple(view[rows] for view in batch.views)
    return Batch(views, batch.y[rows], batch.weight[rows], batch.index[rows], batch.key[rows])


def _rubbish_is_refused(bench: Bench) -> None:
    """The server checks what arrives."""
    good = _upload(bench, 0).payload
    for name, tensor in good.tensors.items():
        wrong = {"another shape": torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)}
        if tensor.is_floating_point():
            wrong["a number that is not finite"] = torch.full_like(tensor, torch.nan)
        for what, value in wrong.items():
            upload = Upload(0, Payload({**good.tensors, name: value}, good.meta))
            try:
                check_upload(bench.algorithm, upload, bench.federation.server, bench.federation.task)
            except PayloadError:
                continue
            raise ConformanceError(f"check lets {name!r} with {what} pass.")


def _evaluation_changes_nothing(bench: Bench) -> None:
    net, received = bench.networks(0), bench.received(0)
    before, held = net.state(), copy.deepcopy(dict(received))
    x = bench.job(0).client.test.x
    for module in net.modules.values():
        module.eval()
    with torch.no_grad():
        first, second = (bench.algorithm.predict(net, x, received) for _ in range(2))
    _require(
        first.shape == (len(x), bench.federation.task.classes), "predict does not give one logit per class and sample"
    )
    _require(torch.equal(first, second), "predict gives another result the second time")
    _require(_equal(before, net.state()) and _equal(held, received), "predict changes networks or what was received")


def _upload(bench: Bench, client: int) -> Upload:
    outcome = next(iter(bench.federation.engine.train(bench.round, [bench.job(client)])))
    return Upload(client, outcome.upload)


def _loss_and_gradients(net: Networks, phase: Phase, batch: Batch, received: Received) -> dict[str, Tensor]:
    for name, module in net.modules.items():
        module.train(name in phase.learning).requires_grad_(name in phase.learning)
        module.zero_grad()
    with CounterDropout(batch.key):
        loss = phase.loss(net, batch, received)
    _require(isinstance(loss, Tensor) and loss.ndim == 0, "a loss is not one scalar")
    loss.backward()  # type: ignore[no-untyped-call]
    result = {"loss": loss.detach()}
    for name in phase.learning:
        for path, parameter in net.parameters(name).items():
            result[path] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
    return result


def _stacked(phase: Phase, nets: list[Networks], batches: list[Batch], received: list[Received]) -> dict[str, Tensor]:
    modules = nets[0].modules
    for name, module in modules.items():
        module.train(name in phase.learning)
    learning = [
        {path: t.detach() for name in phase.learning for path, t in net.parameters(name).items()} for net in nets
    ]
    others = [{path: t for path, t in net.state().items() if path not in learning[0]} for net in nets]

    def loss(weights: dict[str, Tensor], rest: dict[str, Tensor], batch: Batch, tensors: Received) -> Tensor:
        with CounterDropout(batch.key):
            return phase.loss(Networks(modules, {**weights, **rest}, nets[0].task), batch, tensors)

    def step(weights: Any, rest: Any, parts: Any, tensors: Any) -> tuple[dict[str, Tensor], Tensor]:
        gradients, value = torch.func.grad_and_value(loss)(weights, rest, Batch(*parts), tensors)
        return gradients, value

    parts = [(batch.views, batch.y, batch.weight, batch.index, batch.key) for batch in batches]
    stack: Callable[..., Any] = lambda *leaves: torch.stack(leaves)  # noqa: E731
    inputs = [
        torch.utils._pytree.tree_map(stack, *pair) for pair in (learning, others, parts, [dict(r) for r in received])
    ]
    gradients, values = torch.func.vmap(step)(*inputs)
    return {"loss": values, **gradients}


def _equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def _close(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        torch.allclose(tensor, other[name], rtol=_TOLERANCE, atol=_TOLERANCE) for name, tensor in one.items()
    )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConformanceError(f"{otherwise}.")
