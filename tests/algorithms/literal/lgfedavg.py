"""LG-FedAvg, written out: the bodies stay with the clients, the heads are averaged.

Source: P. P. Liang, T. Liu, L. Ziyin, N. B. Allen, R. P. Auerbach, D. Brent, R. Salakhutdinov, L.-P. Morency, "Think
Locally, Act Globally: Federated Learning with Local and Global Representations", arXiv 2001.01523 (version 3, 2020),
Algorithm 1. The text itself was not at hand; the algorithm is taken from a public summary that renders it line by line,
and from the released code (github.com/pliang279/LG-FedAvg, main_lg.py and models/Update.py, commits 8ee6a68, a70bd01).

The paper's symbols are l_m, with theta^l_m, for the local model ("body.") and g, with theta^g, for the global one
("head."); its devices are m = 1, ..., M with N_m samples.

Where the source is silent or contradicts itself, or the released code departs from it:

* The aggregation of Algorithm 1 is the sum over all M devices of N_m / N times theta^g_m, although only those in S_t
  have trained. Here over S_t, the weights summing to 1. The released code takes the plain mean over S_t (its devices
  have the same amount of data); the paper is followed.
* Algorithm 1 has the step on theta^l_m on the line before that on theta^g_m, of the same loss. Two readings: both
  gradients at the same point, or the second one after the first step. The former is chosen: the released code makes one
  step of one optimiser for both, and one forward pass comes before both lines.
* The released code writes the new global part into every client's model, including those that were not selected; this
  comes to the same, since a client receives the global part whenever it is selected. What a client holds in the end is
  here, as the caller wants it, the head it trained itself.
* The released code starts all clients from a model that FedAvg has trained. Here the bodies are those the clients have,
  and the head that the server has before round 1 is the caller's.
* The auxiliary losses for the local representations (self-supervised, adversarial) are not part of it: supervised
  learning alone, as in the paper's image experiments.
"""

from __future__ import annotations

from .common import (
    Batches,
    Params,
    PartedClient,
    Rule,
    aggregate,
    copied,
    cross_entropy,
    descend,
    gradient,
    part,
    samples,
    selected,
    trainable,
)


def lgfedavg(
    clients: list[PartedClient], cohorts: list[list[int]], batches: Batches, rule: Rule, head: Params
) -> tuple[Params, list[Params]]:
    """Algorithm 1.

    Args:
        clients: All N clients, whose heads are alike.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of body and head, which are one group.
        head: The head the server has before round 1.

    Returns:
        The server's head after the last round, and what every client holds: its body and the head as it trained it.
    """
    theta_g = copied(head)
    for t, cohort in enumerate(cohorts, start=1):
        uploads: dict[int, Params] = {}
        N: dict[int, int] = {}
        for m in selected(cohort):
            client = clients[m]
            theta_m = trainable({**part(client.params, "body"), **theta_g})  # theta^l_m and the device's theta^g_m
            v = None
            for batch in batches(t, m, 0):
                X, Y = samples(client, batch)
                H = client.body(part(theta_m, "body"), X)  # H = l_m(X; theta^l_m)
                Y_hat = client.head(part(theta_m, "head"), H)  # Y_hat = g(H; theta^g_m)
                loss = cross_entropy(Y_hat, Y)
                theta_m, v = descend(rule, theta_m, gradient(loss, theta_m), v)  # theta^l_m and theta^g_m
            client.params = copied(theta_m)
            uploads[m] = copied(part(theta_m, "head"))
            N[m] = len(client.y)
        if uploads:
            theta_g = aggregate(uploads, N)  # sum over S_t of N_m / N * theta^g_m
    return theta_g, [client.params for client in clients]
