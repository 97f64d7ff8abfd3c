"""FedClassAvg: averaged classifiers, and representations learned by contrast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import model_validator
from torch import Tensor, nn

from potluck.algorithms.base import Algorithm, Need
from potluck.algorithms.parts.contrastive import normalised, supervised_contrastive
from potluck.algorithms.parts.heads import common_head
from potluck.algorithms.parts.proximal import distance
from potluck.algorithms.settings import setting
from potluck.contract import Batch, Networks, Phase, Received, Round, Task

_RELEASED_TEMPERATURE, _RELEASED_BASE = 100.0, 0.07


class FedClassAvg(Algorithm):
    """Classifier averaging with local representation learning.

    A client takes the global classifier C (here ``head``) and trains its whole model by equation 4,
    ``contrast(F(x'), F(x''), y) + CE(C_k(F(x')), y) + rho * ||w_Ck - w_C||``, on two augmented views x' and x'' of each
    sample: a supervised contrastive loss on the representations F (here ``body``), cross-entropy on the first view, and
    the L2 distance of the classifier from the received one (equation 5; not squared). The server averages classifiers,
    weighted by training samples (3). Each of the three can be left out: ``contrast = "off"``, ``rho = 0``,
    ``averaging = false``.

    Algorithm 1 initialises the clients' models and does not say what the first w_C is: here the server draws it, and it
    replaces every client's own classifier in round 1. No client trains before round 1. Each view is a pass of its own,
    so batch norm normalises the two separately.

    ``contrast = "release"`` takes the scale of the released code: no normalisation, a temperature of 100, and the loss
    multiplied by 100 / 0.07. The released code differs further: it takes representations before the last ReLU (here a
    body ends in that ReLU), passes both views through the network together, and has rho / 2 times the mean squared
    distance as the proximal term. ``share = "all"`` averages whole models, the paper's "+weight" rows. The released
    optimiser is Adam with betas (0.5, 0.999), and its views are the augmentation ``two-views``.
    """

    name: ClassVar[str] = "fedclassavg"
    title: ClassVar[str] = "FedClassAvg"
    paper: ClassVar[str] = (
        "Jang et al., FedClassAvg: Local Representation Learning for Personalized Federated Learning on Heterogeneous "
        "Neural Networks, ICPP 2022"
    )
    venue: ClassVar[str] = "Jang et al., ICPP 2022"
    down: ClassVar[str] = "the classifier"
    up: ClassVar[str] = "the classifier"

    rho: float = setting(
        0.1,
        "weight of the proximal term",
        ge=0,
        paper="0.1 (CIFAR-10, EMNIST), 0.4662 (Fashion-MNIST)",
        values=(0.4662,),
    )
    contrast: Literal["normalised", "release", "off"] = setting(
        "normalised",
        "the contrastive loss: on vectors of length 1, as released, or none",
        paper="not said; code: release",
    )
    temperature: float = setting(
        0.07,
        "temperature of the normalised contrastive loss",
        gt=0,
        paper="not said; code: 100, and 0.07 as its base",
    )
    averaging: bool = setting(True, "whether classifiers are averaged; without, nothing travels", paper="true")
    share: Literal["classifier", "all"] = setting(
        "classifier", "what is averaged; all needs equal models", paper="classifier; all in the rows +weight"
    )

    @model_validator(mode="after")
    def _something_to_be_near(self) -> Self:
        if not self.averaging and self.rho:
            raise ValueError("without averaging there is no received classifier to stay near: set rho to 0 as well.")
        if not self.averaging and self.share == "all":
            raise ValueError("share is all, and averaging is off: choose one of the two.")
        return self

    @property
    def needs(self) -> frozenset[Need]:
        """One classifier for all representations; equal models where all is shared, and nothing where nothing is."""
        if not self.averaging:
            return frozenset()
        return frozenset({"equal models" if self.share == "all" else "equal width"})

    @property
    def shared(self) -> tuple[str, ...]:
        """The classifier, the whole model, or nothing."""
        if not self.averaging:
            return ()
        return ("body", "head") if self.share == "all" else ("head",)

    def server_networks(self, task: Task) -> dict[str, nn.Module]:
        """The global classifier, or the global model."""
        return super().server_networks(task) if self.shared != ("head",) else common_head(task)

    def phases(self, round: Round) -> Sequence[Phase]:
        """The whole model, on two views."""
        views = 1 if self.contrast == "off" else 2
        return (Phase(train=("body", "head"), loss=self.model_loss, views=views),)

    def model_loss(self, net: Networks, batch: Batch, received: Received) -> Tensor:
        """Equation 4."""
        first = net.body(batch.x)
        loss = batch.cross_entropy(net.head(first))
        if self.contrast != "off":
            loss = loss + self._contrast(first, net.body(batch.views[1]), batch)
        if self.rho:
            loss = loss + self.rho * distance(net, received, "head")
        return loss

    def _contrast(self, first: Tensor, second: Tensor, batch: Batch) -> Tensor:
        if self.contrast == "normalised":
            return supervised_contrastive(normalised(first), normalised(second), batch, self.temperature)
        scale = _RELEASED_TEMPERATURE / _RELEASED_BASE
        return scale * supervised_contrastive(first, second, batch, _RELEASED_TEMPERATURE)
