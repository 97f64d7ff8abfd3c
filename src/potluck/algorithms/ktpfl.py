"""KT-pFL: every client learns from its own mixture of all clients' predictions on public data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.parts.probabilities import check_probabilities
from potluck.algorithms.settings import setting
from potluck.algorithms.uploads import State, Upload
from potluck.contract import Batch, Group, Networks, Phase, Received, Round, Task
from potluck.errors import ConfigError
from potluck.payload import Payload, check_numbers
from potluck.settings import MOST

_MOST_BYTES = 1 << 31


class KTPFL(Algorithm):
    """Parameterized knowledge transfer.

    Every client sends its soft predictions ``softmax(z / temperature)`` on the public data: once before the first
    round, and after its training in each round it takes part in. The server keeps the latest of all clients, and a
    matrix of coefficients c, at first all equal. Client k receives the mixture ``sum over l of c_kl soft_l``, learns
    from it on the public data by KL divergence, and then from its own data by cross-entropy. After a round the server
    takes gradient steps on the rows of the clients that took part, by
    ``MSE(soft_k, sum of c_kl soft_l) + rho * MSE(c_k, 1 / N)``. A row is clipped at 0 and divided by its sum. The run's
    momentum, weight decay, clip_norm and schedule do not apply to these steps.

    The text of the paper was not available, so this follows the authors' code, with differences: all public samples in
    every round, where that code draws some anew; no training and no update of the coefficients before the first
    distillation; the run's local epochs in every round, where they rise from 1 there; plain gradient steps and a
    division by the sum, where that code looks for a step length and takes a softmax of 5 times the row; KL summed over
    classes, not averaged. Others report that the paper's objective for c has a KL divergence in place of the MSE.
    """

    name: ClassVar[str] = "kt-pfl"
    title: ClassVar[str] = "KT-pFL"
    paper: ClassVar[str] = (
        "Zhang et al., Parameterized Knowledge Transfer for Personalized Federated Learning, NeurIPS 2021"
    )
    venue: ClassVar[str] = "Zhang et al., NeurIPS 2021"
    down: ClassVar[str] = "mixed predictions on public data"
    up: ClassVar[str] = "soft predictions on public data"
    needs: ClassVar[frozenset[Need]] = frozenset({"public data"})
    collects: ClassVar[Literal["public"]] = "public"
    enrolls: ClassVar[bool] = True

    temperature: float = setting(10.0, "divides logits before the softmax", gt=0, paper="not read; code: 10")
    rho: float = setting(
        0.6,
        "weight that draws coefficients to 1 / N",
        ge=0,
        paper="not read; code: 0.1 to 3, 0.7 among them",
        values=(0.7,),
    )
    coefficient_learning_rate: float = setting(
        1.0, "learning rate of the coefficients", gt=0, paper="not read; code: found in each round"
    )
    coefficient_steps: int = setting(
        1, "gradient steps on a row of coefficients in a round", ge=1, le=MOST, paper="not read; code: 1"
    )
    transfer_epochs: int = setting(1, "epochs on the public data", ge=1, le=MOST, paper="not read; code: 1")
    transfer_learning_rate: float | None = setting(
        None,
        "learning rate on the public data; the run's own by default",
        gt=0,
        paper="not read; code: 0.02, the run's own",
        values=(0.02,),
    )

    def check_task(self, task: Task) -> None:
        """Refuse what would not fit into the server's memory."""
        # Predictions are float32, and the coefficients are made in float64.
        size = 4 * task.clients * task.public * task.classes + 8 * task.clients**2
        if size > _MOST_BYTES:
            raise ConfigError(
                f"KT-pFL keeps predictions of all {task.clients:,} clients on {task.public:,} public samples of "
                f"{task.classes:,} classes and a coefficient for each pair of clients: {size / 2**30:.1f} GiB "
                "on the server. Use fewer clients or public samples (--set public=200)."
            )

    def server_state(self, task: Task) -> State:
        """No predictions yet, and equal coefficients."""
        return {
            "soft": torch.zeros(task.clients, task.public, task.classes),
            "coefficients": torch.full((task.clients, task.clients), 1 / task.clients, dtype=torch.float64),
        }

    def broadcast(self, state: State, client: int, round: Round) -> Payload:
        """The client's own mixture of all predictions."""
        if round.number == 0:
            return Payload()
        return Payload({"target": torch.tensordot(state["coefficients"][client], state["soft"], 1)})

    def receive(self, payload: Payload, task: Task) -> Received:
        """The mixture: class scores for each public sample. Nothing arrives before the first round."""
        if payload.tensors:
            payload.require_names({"target"})
            check_numbers("target", payload.tensors["target"], (task.public, task.classes))
        return payload.tensors

    def phases(self, round: Round) -> Sequence[Phase]:
        """Public data, then the client's own; nothing before the first round."""
        if round.number == 0:
            return ()
        model = Group(("body", "head"), learning_rate=self.transfer_learning_rate)
        return (
            Phase(train=(model,), loss=self.transfer_loss, epochs=self.transfer_epochs, data="public"),
            Phase(train=("body", "head"), loss=self.cross_entropy),
        )

    def transfer_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """KL divergence of the client's soft predictions from its mixture."""
        target = received["target"][batch.index]
        apart = torch.xlogy(target, target) - target * (net(batch.x) / self.temperature).log_softmax(1)
        return batch.mean(apart.sum(1))

    def collect(self, net: Networks, batch: Batch, received: Received) -> dict[str, Tensor]:
        """Soft predictions, each in the row of its sample."""
        soft = (net(batch.x) / self.temperature).softmax(1) * batch.weight.unsqueeze(1)
        rows = soft.new_zeros(net.task.public, net.task.classes)
        return {"soft": rows.index_add(0, batch.index, soft)}

    def upload(
        self, net: Networks, collected: Mapping[str, Tensor], received: Received, samples: int, round: Round
    ) -> Payload:
        """Soft predictions on all public data."""
        return Payload({"soft": collected["soft"]})

    def check(self, upload: Upload, state: State, task: Task) -> None:
        """Refuse tensors that are no predictions."""
        upload.payload.require({"soft": state["soft"][0]})
        check_probabilities(upload.client, "soft", upload.payload.tensors["soft"])

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        """Take the new predictions, then update the rows of the clients that sent them."""
        soft, coefficients = state["soft"].clone(), state["coefficients"].clone()
        for upload in uploads:
            soft[upload.client] = upload.payload.tensors["soft"]
        if round.number > 0:
            flat = soft.flatten(1)
            for upload in uploads:
                coefficients[upload.client] = self._updated(coefficients[upload.client], flat, upload.client)
        return {"soft": soft, "coefficients": coefficients}

    def _updated(self, row: Tensor, flat: Tensor, client: int) -> Tensor:
        for _ in range(self.coefficient_steps):
            missed = flat[client] - row @ flat
            gradient = -2 * flat @ missed / flat.shape[1] + 2 * self.rho * (row - 1 / len(row)) / len(row)
            row = (row - self.coefficient_learning_rate * gradient).clamp(min=0)
            total = row.sum()
            # A step that is far too long may leave nothing above 0: start again.
            row = torch.where(total > 0, row / total.clamp(min=torch.finfo(row.dtype).tiny), 1 / len(row))
        return row
