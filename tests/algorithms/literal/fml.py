"""Federated Mutual Learning, written out.

Source: T. Shen et al., "Federated Mutual Learning", arXiv 2006.16765 (journal version: FITEE 24(10), 2023). Of the
paper only the abstract and the opening could be had. What is transcribed is the authors' code, repository
ZJU-DAI/Federated-Mutual-Learning: `train_mutual` in src/Trainer.py for the losses and steps, `Node.fork` and
`Global_Node.merge` in Node.py for what is passed around, main.py for the order of a round. The two losses agree with
what the abstract says of them (deep mutual learning of a personal model and a "meme" of the global one) and with the
second implementation looked at, HtFLlib's clientfml.py. No equation number could be checked, so none is given.

Where that is silent or not of one mind:

* Divergences. `train_mutual` divides KL by the number of samples (reduction "batchmean", which sums over classes), and
  so does this. HtFLlib divides by the number of classes as well. There is no temperature in either.
* Both models learn from the outputs that both had before the step, the other's taken as a constant: `train_mutual`
  detaches them and steps after both backward passes. (HtFLlib does not detach, which lets each loss move both models.)
* Weights of the average. `merge` counts every node alike, whatever its data. So does this, over the selected clients.
* Selection. Everybody takes part in the code. Here the selected alone fork, train and are merged.
* Optimisers. The code gives the meme a fresh optimiser whenever it is forked and lets that of the personal model live
  on. Here both start afresh in each round, as in all transcriptions.
* A client that was never selected holds F_k as it was, and no small model: it has not been sent one.
* src/main.py has the calls of `fork` and `merge` commented out; main.py, which has them, is followed.
"""

from __future__ import annotations

from .common import (
    Batches,
    Forward,
    Params,
    PartedClient,
    Rule,
    copied,
    cross_entropy,
    descend,
    gradient,
    part,
    selected,
    trainable,
)
from .parted import drawn, kl_divergence, softmax, unweighted


def fml(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    small_body: Forward,
    small_head: Forward,
    small: Params,
    alpha: float,
    beta: float,
    small_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """FML written out.

    Args:
        clients: All N clients.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of F_k.
        small_body: The body of the small model.
        small_head: The head of the small model.
        small: The small model before round 1.
        alpha: The weight of the labels in the loss of F_k.
        beta: The weight of the labels in the loss of the small model.
        small_rule: The optimiser of the small model; that of F_k if there is none.

    Returns:
        The small model after the last round, and what every client holds: F_k and the small model it trained.
    """
    w_global = copied(small)
    held = [copied(part(client.params, "body", "head")) for client in clients]
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        for k in selected(cohort):
            client = clients[k]
            w_local = trainable(part(held[k], "body", "head"))
            w_meme = trainable(w_global)  # Node.fork
            v_local: Params | None = None
            v_meme: Params | None = None
            for batch in batches(t, k, 0):
                x, y = drawn(client.x, client.y, batch)
                z_local = client.forward(w_local, x)
                z_meme = small_head(part(w_meme, "small_head"), small_body(part(w_meme, "small_body"), x))
                p_local = softmax(z_local).detach()
                p_meme = softmax(z_meme).detach()
                # train_mutual: loss_local = alpha * CE(local) + (1 - alpha) * KL(p_meme || p_local)
                loss_local = alpha * cross_entropy(z_local, y) + (1.0 - alpha) * kl_divergence(p_meme, z_local)
                # train_mutual: loss_meme = beta * CE(meme) + (1 - beta) * KL(p_local || p_meme)
                loss_meme = beta * cross_entropy(z_meme, y) + (1.0 - beta) * kl_divergence(p_local, z_meme)
                g_local = gradient(loss_local, w_local)
                g_meme = gradient(loss_meme, w_meme)
                w_local, v_local = descend(rule, w_local, g_local, v_local)
                w_meme, v_meme = descend(small_rule or rule, w_meme, g_meme, v_meme)
            held[k] = {**copied(w_local), **copied(w_meme)}
            uploads[k] = copied(w_meme)
        if uploads:
            w_global = unweighted(uploads)  # Global_Node.merge
    return w_global, held
