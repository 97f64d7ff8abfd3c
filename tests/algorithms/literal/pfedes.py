"""pFedES, written out: a shared extractor G in front of every client's own model F_k, the two trained in turn.

Source: L. Yi, H. Yu, C. Ren, G. Wang, X. Liu, X. Li, "pFedES: Generalized Proxy Feature Extractor Sharing for Model
Heterogeneous Personalized Federated Learning", AAAI 2025, sections "Overview" and "Iterative Training and Model
Aggregation", equations 4 to 11, the numbers used below. Its Algorithm 1 is in an appendix that is not at hand; the one
of the first version (L. Yi, H. Yu, G. Wang, X. Liu, arXiv 2311.06879, section 4, equations 3 to 10) stands in for it.
:func:`pfedes_simultaneous` is the training that "Motivation" (AAAI) describes and rejects. The released code
(github.com/LipingYi/pFedES, pFedES.py and pFedES_mh.py, commit e84be32) was read for what the text leaves open only.

Where the source is silent or contradicts itself:

* Equations 7 and 10 are a single step from the values of round t - 1, while Algorithm 1 (arXiv) puts them into a loop
  over D_k, always with t - 1 on the right. Read as descent over batches, in which each step starts where the one before
  ended; only the network that is frozen keeps the values the equations print. The released code does so too.
* Batches and losses: l is the mean over the batch of the cross-entropy ("e.g.", before equation 5).
* E and E_fe: the epochs of the two steps may differ ("training epoch E_fe of the proxy homogeneous feature extractor"),
  so each step has batches of its own, phases 0 and 1.
* Where step 2 starts: at theta^{t-1} (equations 8 to 10), not at the theta_k a client trained some rounds ago. It uses
  the omega_k^t that step 1 left (equation 8).
* mu is in (0, 0.5]. Not checked: 0 is training without G, which is useful for comparison.
* n in equation 11 is the data of all N clients, by "Preliminaries" of either version. The weights would then not sum to
  1 under partial participation; here it is the data of S^t, as in the released code. (That code counts held-out samples
  in n_k as well; here n_k = |D_k| is the training data.)
* arXiv's equation 10 sums over k = 0, ..., K - 1, AAAI's over S^t, which is meant. Rounds run to T - 1 in Algorithm 1
  (arXiv), starting from 1; here there are as many as cohorts.
* eta_theta = eta_omega in the experiments, hence the default of ``extractor_rule``.
* Simultaneous training has no equations. Two readings: (a) one descent of the combined model {G(theta), F_k(omega_k)}
  on one loss, equation 6; (b) omega_k descends equation 6 and theta equation 9, in the same step. Chosen is (a), since
  the text speaks of "a larger model combined with the two models" that is trained as such. In (a) the gradient of theta
  is mu times that in (b), as l_2 does not depend on theta.
"""

from __future__ import annotations

from .common import (
    Batches,
    Forward,
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


def pfedes(
    clients: list[LiteralClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    extractor: Forward,
    theta: Params,
    mu: float,
    extractor_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """The iterative training of pFedES and the aggregation of G.

    Args:
        clients: All N clients, each with a model of its own.
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, which trains F_k, and of phase 1, which trains G.
        rule: The optimiser of F_k, with eta_omega.
        extractor: G(theta; x) -> the enhanced data, of the shape of x.
        theta: theta^0.
        mu: The weight of equation 6.
        extractor_rule: The optimiser of G, with eta_theta; that of F_k if there is none.

    Returns:
        theta after the last round, and omega_k of every client.
    """
    if extractor_rule is None:
        extractor_rule = rule
    theta = copied(theta)
    for t, cohort in enumerate(cohorts, start=1):
        theta_uploaded: dict[int, Params] = {}
        n: dict[int, int] = {}
        for k in selected(cohort):
            client = clients[k]

            # Step 1: G(theta^{t-1}) is frozen, F_k is trained.
            omega_k = trainable(client.params)
            v = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                x_hat = extractor(theta, x).detach()
                y_hat_1 = client.forward(omega_k, x_hat)  # (4)
                y_hat_2 = client.forward(omega_k, x)  # (4)
                l_1 = cross_entropy(y_hat_1, y)  # (5)
                l_2 = cross_entropy(y_hat_2, y)  # (5)
                l_omega = mu * l_1 + (1 - mu) * l_2  # (6)
                omega_k, v = descend(rule, omega_k, gradient(l_omega, omega_k), v)  # (7)
            client.params = copied(omega_k)  # omega_k^t, which stays with the client

            # Step 2: F_k(omega_k^t) is frozen, G is trained.
            omega_k = client.params
            theta_k = trainable(theta)
            v = None
            for batch in batches(t, k, 1):
                x, y = samples(client, batch)
                x_hat = extractor(theta_k, x)
                y_hat = client.forward(omega_k, x_hat)  # (8)
                l_theta = cross_entropy(y_hat, y)  # (9)
                theta_k, v = descend(extractor_rule, theta_k, gradient(l_theta, theta_k), v)  # (10)
            theta_uploaded[k] = copied(theta_k)
            n[k] = len(client.y)
        if theta_uploaded:
            theta = aggregate(theta_uploaded, n)  # (11)
    return theta, [client.params for client in clients]


def pfedes_simultaneous(
    clients: list[LiteralClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    extractor: Forward,
    theta: Params,
    mu: float,
    extractor_rule: Rule | None = None,
) -> tuple[Params, list[Params]]:
    """The same with G and F_k trained at once, on equation 6 (reading (a) above).

    Args:
        clients: As for :func:`pfedes`.
        cohorts: As for :func:`pfedes`.
        batches: The batches of phase 0.
        rule: As for :func:`pfedes`.
        extractor: As for :func:`pfedes`.
        theta: As for :func:`pfedes`.
        mu: As for :func:`pfedes`.
        extractor_rule: As for :func:`pfedes`.

    Returns:
        As :func:`pfedes`.
    """
    if extractor_rule is None:
        extractor_rule = rule
    theta = copied(theta)
    for t, cohort in enumerate(cohorts, start=1):
        theta_uploaded: dict[int, Params] = {}
        n: dict[int, int] = {}
        for k in selected(cohort):
            client = clients[k]
            omega_k = trainable(client.params)
            theta_k = trainable(theta)
            v_omega = None
            v_theta = None
            for batch in batches(t, k, 0):
                x, y = samples(client, batch)
                x_hat = extractor(theta_k, x)
                y_hat_1 = client.forward(omega_k, x_hat)  # (4)
                y_hat_2 = client.forward(omega_k, x)  # (4)
                l_1 = cross_entropy(y_hat_1, y)  # (5)
                l_2 = cross_entropy(y_hat_2, y)  # (5)
                l_omega = mu * l_1 + (1 - mu) * l_2  # (6)
                g_omega = gradient(l_omega, omega_k)  # both gradients before either step
                g_theta = gradient(l_omega, theta_k)
                omega_k, v_omega = descend(rule, omega_k, g_omega, v_omega)  # (7)
                theta_k, v_theta = descend(extractor_rule, theta_k, g_theta, v_theta)  # (10), with the loss of (6)
            client.params = copied(omega_k)
            theta_uploaded[k] = copied(theta_k)
            n[k] = len(client.y)
        if theta_uploaded:
            theta = aggregate(theta_uploaded, n)  # (11)
    return theta, [client.params for client in clients]
