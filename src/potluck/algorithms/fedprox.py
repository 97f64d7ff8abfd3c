"""FedProx: FedAvg whose clients are held near the model they received."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from potluck.algorithms.fedavg import FedAvg
from potluck.algorithms.parts.proximal import squared_distance
from potluck.algorithms.settings import setting
from potluck.contract import Batch, Networks, Received


class FedProx(FedAvg):
    """Federated averaging with a proximal term: ``CE + mu / 2 * ||w - w_received||^2``.

    This is equation 2. The distance is over all learnable weights, and its gradient is ``mu * (w - w_received)``. Like
    FedAvg it needs one architecture on every client. Clients are drawn uniformly and averaged by training samples, as
    in the paper's experiments (section 5); Algorithm 2 draws them in proportion to their samples and takes the plain
    mean.
    """

    name: ClassVar[str] = "fedprox"
    title: ClassVar[str] = "FedProx"
    paper: ClassVar[str] = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"
    venue: ClassVar[str] = "Li et al., MLSys 2020"

    mu: float = setting(
        0.01, "weight of the proximal term", ge=0, paper="0.001, 0.01, 0.1 and 1", values=(0.001, 0.1, 1)
    )

    def cross_entropy(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Cross-entropy and the proximal term."""
        proximal = squared_distance(net, received, *self.shared)
        return super().cross_entropy(net, batch, received) + self.mu / 2 * proximal
