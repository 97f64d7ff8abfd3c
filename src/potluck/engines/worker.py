"""What the reference engine does for one client: plain PyTorch, step by step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from potluck import draws
from potluck.algorithms.admission import sent_by
from potluck.algorithms.hooks import calling, given, given_loss, given_tensors, loss_name, phases_of
from potluck.client import Client
from potluck.contract import Batch, Networks, Phase, Received, Round
from potluck.data.examples import Examples
from potluck.engines.base import Job, Outcome, Setting
from potluck.engines.batches import EVALUATION_BATCH, epoch_batches, has_batch_norm, plain_batches
from potluck.engines.demands import data_of, loss_of_round, require_finite, require_networks, weights_among
from potluck.engines.memory import receive, remembering, weights_in
from potluck.engines.optimizer import Optimizer
from potluck.engines.randomness import CounterDropout
from potluck.engines.workshop import Workshop
from potluck.errors import DataError
from potluck.metrics.accuracy import Evaluation, Scores, scores, tally
from potluck.metrics.counter import Counter
from potluck.metrics.flops import Cost
from potluck.models.copying import copy_of
from potluck.payload import Payload


class Worker:
    """Trains and evaluates one client at a time, on networks of its own.

    Args:
        setting: What all clients have in common.
        costs: What is known of costs, by all workers.
    """

    def __init__(self, setting: Setting, costs: dict[object, Cost] | None = None) -> None:
        self.setting = setting
        self.workshop = Workshop(setting, costs)

    def networks(self, job: Job) -> dict[str, nn.Module]:
        """Copies of the networks that a client holds, ready for use."""
        modules = copy_of(dict(self._load(job).modules))
        return {name: module.cpu().eval().requires_grad_(True) for name, module in modules.items()}

    def predict(self, job: Job, x: Tensor) -> Tensor:
        """Logits of a client for inputs like its own."""
        net, received = self._load(job), self._receive(job)
        y = torch.zeros(len(x), dtype=torch.int64)
        with self.setting.precision.working(), calling(self.setting.algorithm, "predict", client=job.client.id):
            outputs = [self._logits(net, batch.x, received).cpu() for batch in self._all(net, Examples(x, y))]
        return torch.cat(outputs) if outputs else torch.empty(0, self.setting.task.classes)

    def evaluate(self, job: Job) -> Evaluation:
        """Evaluate a client with what it holds."""
        with self.setting.precision.working():
            return self._evaluate(job.client, self._load(job), self._receive(job))

    def train(self, round: Round, job: Job) -> Outcome:
        """Train a client for a round, and evaluate it."""
        with self.setting.precision.working():
            return self._train(round, job)

    def _train(self, round: Round, job: Job) -> Outcome:
        algorithm, client = self.setting.algorithm, job.client
        net, arrived = self._load(job), receive(algorithm, job, self.setting.task)
        received = self.workshop.to_device(arrived)
        net.load(weights_among(received, algorithm.shared))

        losses, flops = [], 0
        adapting, phases = phases_of(algorithm, round)
        for number, phase in enumerate((*adapting, *phases)):
            loss, operations = self._run_phase(round, number, phase, client, net, received)
            losses.append(loss)
            flops += operations
        require_finite(round, client, losses, _weights_are_finite(net))
        with calling(algorithm, "collect", client=client.id, round=round):
            collected, operations = self._collect(client, net, received)
        with sent_by(client.id), Counter() as making, calling(algorithm, "upload", client=client.id, round=round):
            # Copies: what an algorithm uploads may be the very weights that the next client is loaded into.
            sent = algorithm.upload(net, collected, received, len(client.train), round)
            upload = given(Payload, sent).copied()
        state = {name: tensor.cpu() for name, tensor in net.state().items()}
        return Outcome(
            client=client.id,
            state=remembering(algorithm, state, arrived),
            upload=upload,
            loss=loss_of_round(losses, len(adapting)),
            flops=flops + operations + making.total,
            evaluation=self._evaluate(client, net, received),
        )

    def _load(self, job: Job) -> Networks:
        architecture = job.client.architecture
        with calling(self.setting.algorithm, "networks", client=job.client.id):
            net = self.workshop.networks(architecture)
        held = job.held()
        net.load(self.workshop.initial(architecture) if held is None else weights_in(held), whole=True)
        return net

    def _receive(self, job: Job) -> Received:
        return self.workshop.to_device(receive(self.setting.algorithm, job, self.setting.task))

    def _run_phase(
        self, round: Round, number: int, phase: Phase, client: Client, net: Networks, received: Received
    ) -> tuple[float, int]:
        """Train through one phase; its mean loss, and what it cost."""
        setting, data = self.setting, data_of(self.setting, client, phase.data)
        require_networks(number, phase, net.modules)
        for name, module in net.modules.items():
            module.train(name in phase.learning).requires_grad_(name in phase.learning)
        steps = self.workshop.batch_sizes(net, phase, len(data))
        factor = setting.training.learning_rate_factor(round.number, round.total)
        optimizer = Optimizer(phase, net, setting.training, factor)
        key = draws.fold(setting.seed, "train", round.number, client.id, number)
        total = torch.zeros((), dtype=torch.float64, device=setting.device)
        epochs = self.workshop.epochs(phase)
        for epoch in range(epochs):
            for batch in epoch_batches(data, steps, key, epoch, phase, self.workshop.inputs(net)):
                setting.check_stop()
                with calling(setting.algorithm, loss_name(number, phase), client=client.id, round=round):
                    loss = given_loss(self._loss(phase, client, net, batch, received))
                    optimizer.step(loss)
                total += loss.detach() * len(batch.y)
        with calling(setting.algorithm, loss_name(number, phase), client=client.id, round=round):
            flops = self.workshop.phase_flops(client.architecture, number, phase, received, steps)
        return float(total) / max(epochs * sum(steps), 1), flops

    def _loss(self, phase: Phase, client: Client, net: Networks, batch: Batch, received: Received) -> Tensor:
        try:
            with self.workshop.computing(net), CounterDropout(batch.key), self.setting.precision.autocast():
                return phase.loss(net, batch, received)
        except ValueError as error:
            if len(batch.y) > 1 or not has_batch_norm(*(net.modules[name] for name in phase.learning)):
                raise
            raise DataError(
                f"client {client.id} learns from a single sample at a time, and its networks normalise over the "
                "samples of a batch: give it more samples, and a batch_size of at least 2."
            ) from error

    def _collect(self, client: Client, net: Networks, received: Received) -> tuple[dict[str, Tensor], int]:
        """The sum of the algorithm's statistic over the client's data, and what it cost."""
        algorithm = self.setting.algorithm
        if algorithm.collects is None:
            return {}, 0
        data = data_of(self.setting, client, algorithm.collects)
        for module in net.modules.values():
            module.eval()
        total: dict[str, Tensor] = {}
        with torch.no_grad():
            for batch in self._all(net, data):
                for name, value in given_tensors(algorithm.collect(net, batch, received)).items():
                    total[name] = total[name] + value if name in total else value
        return total, self.workshop.collecting_flops(client.architecture, received, len(data))

    # ---- evaluation -----------------------------------------------------------------------------------------------

    def _all(self, net: Networks, data: Examples) -> Iterator[Batch]:
        return plain_batches(data, EVALUATION_BATCH, self.workshop.inputs(net))

    @torch.no_grad()
    def _logits(self, net: Networks, x: Tensor, received: Received) -> Tensor:
        for module in net.modules.values():
            module.eval()
        with self.workshop.computing(net), self.setting.precision.autocast():
            logits = given(Tensor, self.setting.algorithm.predict(net, x, received))
        if logits.shape != (expected := (len(x), self.setting.task.classes)):
            raise ValueError(
                f"logits of shape {tuple(logits.shape)}, and not {expected}: one for each sample and class."
            )
        return logits.to(self.setting.dtype)

    def _score(self, net: Networks, data: Examples, received: Received) -> Scores | None:
        classes = self.setting.task.classes
        counts = torch.zeros(3, classes, dtype=torch.int64, device=self.setting.device)
        for batch in self._all(net, data):
            counts += tally(self._logits(net, batch.x, received).argmax(1), batch.y, classes)
        return scores(counts)

    def _evaluate(self, client: Client, net: Networks, received: Received) -> Evaluation:
        with calling(self.setting.algorithm, "predict", client=client.id):
            test = self._score(net, client.test, received)
            return Evaluation(client.id, test, self._score(net, client.validation, received))


@torch.no_grad()
def _weights_are_finite(net: Networks) -> bool:
    # Not buffers: a mask may well hold infinities, and statistics that are not finite show in the loss.
    weights = [weight for name in net.modules for weight in net.parameters(name).values()]
    # What is not finite makes no finite sum: one pass over the numbers, where looking at each of them takes several.
    if not weights or bool(torch.isfinite(torch.stack([weight.sum() for weight in weights])).all()):
        return True
    return bool(torch.stack([torch.isfinite(weight).all() for weight in weights]).all())
