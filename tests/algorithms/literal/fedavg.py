"""FedAvg, written out.

Source: H. B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agueera y Arcas, "Communication-Efficient Learning of Deep
Networks from Decentralized Data", AISTATS 2017 (arXiv 1602.05629), section 2, Algorithm 1 (FederatedAveraging). The
text itself was not at hand; the algorithm is taken from public renderings of it, which agree but for the weights below.

The paper's symbols are w_t for the global model before round t, w^k_{t+1} for what client k makes of it, P_k for the
client's data and n_k for their number.

Where the source is silent or contradicts itself:

* The proceedings print w_{t+1} <- sum over k = 1, ..., K of n_k / n w^k_{t+1}, K being all clients, although only those
  in S_t have trained; the text explains n as the data of all. Later versions on arXiv correct it to the sum over S_t of
  n_k / m_t w^k_{t+1} with m_t the sum of n_k over S_t. That is followed, so that the weights sum to 1. (Another reading
  of the proceedings: clients not in S_t count with w_t.)
* P_k is split into batches once for each round, before the epochs; whether it is shuffled anew for each epoch is the
  caller's business here, who gives the batches of all epochs.
* The loss l(w; b) is the mean over the batch (section 2: f is a mean of the losses of single samples).
* The paper has plain gradient descent. Momentum, weight decay and clipping come with the rule.
* The algorithm does not have clients keep anything. Here they keep what they trained.
"""

from __future__ import annotations

from .common import (
    Batches,
    LiteralClient,
    Params,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    samples,
    selected,
    trainable,
)


def fedavg(
    clients: list[LiteralClient], cohorts: list[list[int]], batches: Batches, rule: Rule, initial: Params
) -> tuple[Params, list[Params]]:
    """Algorithm 1.

    Args:
        clients: All N clients, of one architecture.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser.
        initial: The global model before round 1.

    Returns:
        The global model after the last round, and what every client holds: the model it trained when it was last
        selected, before the server averaged it, or the parameters it was given if it never was.
    """
    w = copied(initial)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        n: dict[int, int] = {}
        for k in selected(cohort):  # "in parallel"
            client = clients[k]
            w_k = trainable(w)  # ClientUpdate(k, w_t)
            v = None
            for b in batches(t, k, 0):
                x, y = samples(client, b)
                loss = cross_entropy(client.forward(w_k, x), y)
                w_k, v = descend(rule, w_k, gradient(loss, w_k), v)  # w <- w - eta * gradient of l(w; b)
            client.params = copied(w_k)
            uploads[k] = copied(w_k)
            n[k] = len(client.y)
        if uploads:
            w = aggregate(uploads, n)  # w_{t+1} <- sum over S_t of n_k / m_t * w^k_{t+1}
    return w, [client.params for client in clients]
