"""How far a client is from a point where its loss is flat: the squared norm of the gradient.

The papers' convergence theorems bound its mean over the rounds by a term of order 1/T.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from potluck.algorithms.hooks import calling, given_loss, loss_name, phases_of
from potluck.client import Client
from potluck.contract import Networks, Received, Round
from potluck.engines.base import Setting
from potluck.engines.batches import EVALUATION_BATCH, Inputs, plain_batches
from potluck.engines.demands import data_of


def squared_gradient_norm(
    setting: Setting, client: Client, modules: dict[str, nn.Module], received: Received, round: Round
) -> float | None:
    """The squared norm of the gradient of a client's loss over all its training samples, none of them augmented.

    The loss is that of the round's first phase, by the weights which that phase trains, everything in eval mode. A
    loss that relates samples sees them in batches of 1,000. ``None`` if nothing is trained.

    Args:
        setting: What the clients have in common.
        client: Whose samples.
        modules: Its networks; they are put on the setting's device, and keep their weights.
        received: What it received in the round.
        round: Which round.
    """
    adapting, phases = phases_of(setting.algorithm, round)
    if not phases:
        return None
    phase = phases[0]
    for name, module in modules.items():
        module.to(setting.device).eval().requires_grad_(name in phase.learning)
    net = Networks(modules, task=setting.task)
    here = {name: tensor.to(setting.device) for name, tensor in received.items()}
    weights = [weight for name in phase.learning for weight in net.parameters(name).values()]
    data = data_of(setting, client, phase.data)
    inputs = Inputs(setting.transform, setting.device, setting.dtype)
    total = [torch.zeros_like(weight) for weight in weights]
    with setting.precision.working():
        for batch in plain_batches(data, EVALUATION_BATCH, inputs):
            with calling(setting.algorithm, loss_name(len(adapting), phase), client=client.id, round=round):
                loss = given_loss(phase.loss(net, replace(batch, views=batch.views * phase.views), here))
                gradients = torch.autograd.grad(loss, weights, allow_unused=True)
            share = len(batch.y) / len(data)
            for mean, part in zip(total, gradients, strict=True):
                if part is not None:
                    mean.add_(part, alpha=share)
    return sum(float(part.double().square().sum()) for part in total)
