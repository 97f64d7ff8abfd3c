"""FedKD, written out: mentor and mentee teach each other, and updates of the mentee travel as SVD factors both ways.

Source: C. Wu, F. Wu, L. Lyu, Y. Huang, X. Xie, "Communication-efficient federated learning via knowledge distillation",
Nature Communications 13, 2022 (arXiv 2108.13323). Of the paper, Algorithm 1 (the table of PMC9018897, in which formulas
set as images are missing), the caption of Figure 5 and the introduction could be read; the equations of the losses and
of the threshold could not. They are taken from the authors' code, repository wuch15/FedKD: `ModelBert.forward` in
model_bert.py for the losses, `train` in run.py for the round, the factors and the threshold, parameters.py for its
two ends. No equation number could be checked, so none is given; lines are those of Algorithm 1.

A round, t of R: the clients of the cohort train mentor and mentee together, and upload what the training added to the
mentee, as factors (lines 6 to 10). The server multiplies out (12), averages (13 to 16), factorises the average (17) and
distributes the factors (19). Clients multiply out (21) and add the result to the mentee they had before the training
(22). Line 22 subtracts eta_s times a gradient. An update by one step of gradient descent is minus eta_s times the
gradient, and the choice of the rank does not depend on scale, so that both are the same for one step; the code sends
updates, of ten steps, and so does this.

Where the sources are silent, or this departs from them:

* Divergences. `nn.KLDivLoss()` in the code divides by the number of classes too. Here KL is the sum over classes, as a
  mean over the batch.
* Gradients. The code adds up both losses and steps once, so that each loss moves both models. Here, as in lines 29 and
  30, the mentor follows the gradient of its own loss and the mentee that of its own, both taken before either steps.
  The divisor, which is the sum of the two task losses, is differentiated, as in the code.
* Hidden states. The code compares hidden states of every mentee layer with those of every third mentor layer, and
  attention maps. Here there is one hidden state, the representation that the body gives, and there are no attention
  maps. The mean squared error is over all entries, as `nn.MSELoss()` in the code.
* W_i, which maps the mentee's hidden state to the mentor's size. The code declares such layers and does not use them.
  Nothing is said of how W_i is learned. Here it belongs to client i, is never sent, follows the gradient of the
  mentee's loss and is in one group with the mentee for the optimiser (one rule, one norm for clipping).
* Parts that mentor and mentee share in the code (the user encoder) do not exist here.
* Optimisers. One Adam for everything in the code; eta_t and eta_s in Algorithm 1. Here two rules, afresh each round.
* The threshold is T_start + (T_end - T_start) * t / R, with t from 1, for uploads and the broadcast of round t, as in
  the code. R is the number of rounds planned.
* The rank K is the smallest whose squared singular values sum to more than the threshold times the sum of all squares,
  and all of them if none does. The code compares by ">" on clients and by ">=" on the server; here it is ">" on both.
  The code never tries the full rank and falls back to rank 0, which would send nothing; not followed.
* At least rank 1, which is this library's rule, and decides for a matrix of zeros alone. (The code sends that dense.)
* Factors are sent if they are shorter, in numbers, than the matrix they stand for, and the matrix as it is if they are
  not: this library's rule; the code always sends factors. U and V are K * (P + Q) numbers. For Sigma, ``diagonal``
  says what is counted: "vector" for the K numbers of the code, "folded" for none (Sigma multiplied into U or V),
  "square" for the K x K matrix of lines 8 to 10.
* Multiplying out. `np.dot(np.dot(u, sigma), v)` in the code is not the product U Sigma V, since sigma is a vector
  there. Here it is the product.
* Tensors that are not matrices. The code sends those of one dimension as they are, and so does this. It has none of
  three dimensions or more (and `np.linalg.svd` would factorise each slice along the last two dimensions). Here those
  are matrices [first dimension, all others], as in the correction proposed to PFLlib (pull request 265). Embeddings are
  frozen and not sent in the code; here all of the mentee is sent.
* The mean is unweighted over the cohort, as `np.mean` in the code. Line 22 divides the sum of all N clients by N.
* Encryption (lines 9, 11, 18, 20) is left out.
* All clients take part in both sources. With cohorts, this library's rule is: at the start of a round, a client that
  has taken part before is sent, in order, the broadcasts of all rounds since it last received anything (that of the
  round in which it last took part is the first of them), if together they are shorter, in numbers, than the mentee, and
  the mentee itself otherwise. A client that takes part for the first time has no mentee yet, and is sent it. (With
  ``all_know_initial`` all clients have the mentee of before round 1, as in line 4, and the rule holds from there.) The
  broadcast of the last round reaches no client, since no round follows.
* The server adds exactly what it sends, the average after truncation, so that its mentee and the clients' agree. (The
  code has no mentee on the server.)
* A client holds what it trained when it was last selected: mentor, W_i and mentee. The mentee that it put together
  before it trained is ``shared``; updates are added to that.

Example, with two clients, of which the second joins in round 2. Bodies and heads are functions of (parameters, x):

    >>> def mentor_body(p, x): return x @ p["body.w"].T
    >>> def mentor_head(p, h): return h @ p["head.w"].T
    >>> def mentee_body(p, x): return x @ p["small_body.w"].T
    >>> def mentee_head(p, h): return h @ p["small_head.w"].T + p["small_head.b"]
    >>> def ramp(*shape): return torch.arange(torch.Size(shape).numel(), dtype=torch.float64).sin().reshape(shape)
    >>> clients = [
    ...     PartedClient(
    ...         mentor_body,
    ...         mentor_head,
    ...         {"body.w": ramp(6, 8), "head.w": ramp(3, 6), "projection.weight": ramp(6, 5)},  # W_i: [mentor, mentee]
    ...         x=ramp(4, 8) + k,  # 4 samples of 8 numbers
    ...         y=torch.tensor([0, 1, 2, k]),
    ...     )
    ...     for k in range(2)
    ... ]
    >>> mentee = {"small_body.w": ramp(5, 8), "small_head.w": ramp(3, 5), "small_head.b": ramp(3)}
    >>> run = fedkd(
    ...     clients,
    ...     cohorts=[[0], [0, 1]],  # rounds 1 and 2
    ...     batches=lambda t, k, phase: [[0, 1], [2, 3]],  # two steps
    ...     rule=Rule(0.1),
    ...     small_body=mentee_body,
    ...     small_head=mentee_head,
    ...     small=mentee,
    ...     t_start=0.5,
    ...     t_end=0.5,
    ... )
    >>> len(run.server), sorted(run.server[1])  # the server's mentee after each round
    (2, ['small_body.w', 'small_head.b', 'small_head.w'])
    >>> sorted(run.held[1])  # what client 1 trained
    ['body.w', 'head.w', 'projection.weight', 'small_body.w', 'small_head.b', 'small_head.w']
    >>> run.uploaded[0]  # rank 1 of [5, 8] is 14 numbers, rank 1 of [3, 5] is 9, the bias is 3
    {0: 26}
    >>> run.downloaded  # the mentee is 58 numbers; in round 2, client 0 is sent the factors of round 1
    [{0: 58}, {0: 26, 1: 58}]
    >>> all(torch.allclose(run.shared[1][name], run.server[0][name]) for name in mentee)
    True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

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
from .parted import average, drawn, kl_divergence, softmax, squared_error

Diagonal = Literal["vector", "folded", "square"]
"""How many numbers Sigma of rank K counts for: K, none, K * K."""


@dataclass(frozen=True)
class Factors:
    """U [P, K], the diagonal of Sigma [K] and V [K, Q], which stand for a tensor of this shape."""

    U: Tensor
    sigma: Tensor
    V: Tensor
    shape: tuple[int, ...]


Message = dict[str, Factors | Tensor]
"""An update of the mentee as it travels: by name, factors, or the tensor itself."""


@dataclass(frozen=True)
class FedKDRun:
    """What comes of a run. Lists by round start at round 1; those by client have an entry for each client.

    Attributes:
        server: By round, the server's mentee after it.
        held: By client, mentor, W_i and mentee as it trained them last; no mentee if it was never selected.
        shared: By client, the mentee it put together before it trained last; None if it was never selected.
        sent: By round, what the server distributes after it; nothing in a round without clients.
        uploaded: By round, how many numbers each client of the cohort uploaded.
        downloaded: By round, how many numbers each client of the cohort was sent.
    """

    server: list[Params]
    held: list[Params]
    shared: list[Params | None]
    sent: list[Message]
    uploaded: list[dict[int, int]]
    downloaded: list[dict[int, int]]


def energy_threshold(t: int, rounds: int, t_start: float, t_end: float) -> float:
    """T of round t of ``rounds``, with t from 1: T_start + (T_end - T_start) * t / rounds."""
    return t_start + (t_end - t_start) * t / rounds


def distillation_loss(z_own: Tensor, z_other: Tensor, task_own: Tensor, task_other: Tensor) -> Tensor:
    """L^d of either model: KL(other || own) divided by the sum of both task losses."""
    return kl_divergence(softmax(z_other), z_own) / (task_own + task_other)


def hidden_loss(h_t: Tensor, h_s: Tensor, w: Tensor, task_t: Tensor, task_s: Tensor) -> Tensor:
    """L^h, the same for both models: MSE(H_t, W H_s) divided by the sum of both task losses."""
    return squared_error(h_t, h_s @ w.T) / (task_t + task_s)


def rank(sigma: Tensor, threshold: float) -> int:
    """The smallest K >= 1 whose first K squares are more than the share ``threshold`` of all squares, or all.

    Args:
        sigma: The singular values, in descending order.
        threshold: The energy threshold.

    Returns:
        K, which is 1 if all singular values are zero.
    """
    squares = [s * s for s in sigma.tolist()]
    total = sum(squares)
    if total == 0:
        return 1
    for K in range(1, len(squares) + 1):
        if sum(squares[:K]) > threshold * total:
            return K
    return len(squares)


def factor_numbers(p: int, q: int, k: int, diagonal: Diagonal) -> int:
    """How many numbers U [P, K], Sigma and V [K, Q] are."""
    extra = {"vector": k, "folded": 0, "square": k * k}
    return p * k + extra[diagonal] + k * q


def factorised(value: Tensor, threshold: float, diagonal: Diagonal = "vector") -> Factors | Tensor:
    """Lines 8 and 17 for one tensor: its factors, or itself if it is no matrix or they are not shorter."""
    if value.dim() < 2:
        return value.detach().clone()
    matrix = value.detach().reshape(value.shape[0], -1)
    U, sigma, V = torch.linalg.svd(matrix, full_matrices=False)
    K = rank(sigma, threshold)
    if factor_numbers(matrix.shape[0], matrix.shape[1], K, diagonal) >= matrix.numel():
        return value.detach().clone()
    return Factors(U[:, :K].clone(), sigma[:K].clone(), V[:K].clone(), tuple(value.shape))


def multiplied_out(piece: Factors | Tensor) -> Tensor:
    """Lines 12 and 21 for one tensor: U Sigma V, the sum over k of sigma_k times the outer product of u_k and v_k."""
    if isinstance(piece, Tensor):
        return piece
    value = torch.zeros(piece.U.shape[0], piece.V.shape[1], dtype=torch.float64)
    for k in range(len(piece.sigma)):
        value = value + piece.sigma[k] * torch.outer(piece.U[:, k], piece.V[k])
    return value.reshape(piece.shape)


def truncated(value: Tensor, threshold: float, diagonal: Diagonal = "vector") -> Tensor:
    """What arrives of a tensor that is factorised, sent and multiplied out."""
    return multiplied_out(factorised(value, threshold, diagonal))


def message_numbers(message: Message, diagonal: Diagonal) -> int:
    """How many numbers a message is."""
    total = 0
    for piece in message.values():
        if isinstance(piece, Tensor):
            total += piece.numel()
        else:
            total += factor_numbers(piece.U.shape[0], piece.V.shape[1], len(piece.sigma), diagonal)
    return total


def added(mentee: Params, message: Message) -> Params:
    """Line 22: the mentee plus the update that a message carries; a round without clients leaves an empty message."""
    total = copied(mentee)
    for name in message:
        total[name] = mentee[name] + multiplied_out(message[name])
    return total


def brought_up_to_date(
    own: Params | None, missed: list[Message], mentee: Params, diagonal: Diagonal
) -> tuple[Params, int]:
    """The mentee a client starts a round from.

    Args:
        own: The mentee it last put together; None if it has none.
        missed: What the server distributed since, in order.
        mentee: The server's mentee.
        diagonal: What Sigma counts for.

    Returns:
        The client's mentee, and how many numbers it was sent for it.
    """
    dense = sum(value.numel() for value in mentee.values())
    together = sum(message_numbers(message, diagonal) for message in missed)
    if own is None or together >= dense:
        return copied(mentee), dense
    for message in missed:
        own = added(own, message)
    return copied(own), together


def local_training(
    client: PartedClient,
    own: Params,
    mentee: Params,
    batches: list[list[int]],
    rule: Rule,
    small_body: Forward,
    small_head: Forward,
    small_rule: Rule,
) -> tuple[Params, Params, Params]:
    """LocalGradients and line 7, batch after batch.

    Args:
        client: Client i, for its forward and its data.
        own: The mentor's parameters and W_i, as the client holds them.
        mentee: The mentee it starts from.
        batches: The batches of all epochs.
        rule: The optimiser of the mentor, with eta_t.
        small_body: The mentee's body.
        small_head: The mentee's head.
        small_rule: The optimiser of mentee and W_i, with eta_s.

    Returns:
        Mentor, mentee and W_i afterwards.
    """
    theta_t = trainable(part(own, "body", "head"))
    theta_s = trainable({**mentee, **part(own, "projection")})
    v_t: Params | None = None
    v_s: Params | None = None
    for batch in batches:
        x, y = drawn(client.x, client.y, batch)
        H_t = client.body(part(theta_t, "body"), x)
        z_t = client.head(part(theta_t, "head"), H_t)
        H_s = small_body(part(theta_s, "small_body"), x)
        z_s = small_head(part(theta_s, "small_head"), H_s)
        task_t = cross_entropy(z_t, y)  # 25
        task_s = cross_entropy(z_s, y)
        hidden = hidden_loss(H_t, H_s, theta_s["projection.weight"], task_t, task_s)  # 26
        L_t = task_t + distillation_loss(z_t, z_s, task_t, task_s) + hidden  # 27
        L_s = task_s + distillation_loss(z_s, z_t, task_s, task_t) + hidden  # 28
        g_t = gradient(L_t, theta_t)  # 29
        g_s = gradient(L_s, theta_s)  # 30
        theta_t, v_t = descend(rule, theta_t, g_t, v_t)  # 7
        theta_s, v_s = descend(small_rule, theta_s, g_s, v_s)
    return copied(theta_t), copied(part(theta_s, "small_body", "small_head")), copied(part(theta_s, "projection"))


def fedkd(
    clients: list[PartedClient],
    cohorts: list[list[int]],
    batches: Batches,
    rule: Rule,
    small_body: Forward,
    small_head: Forward,
    small: Params,
    small_rule: Rule | None = None,
    t_start: float = 0.95,
    t_end: float = 0.98,
    rounds: int | None = None,
    diagonal: Diagonal = "vector",
    all_know_initial: bool = False,
) -> FedKDRun:
    """Algorithm 1 with cohorts.

    Args:
        clients: All N clients. Body and head are the mentor; "projection.weight" in ``params`` is W_i, of shape
            [size of the mentor's representations, size of the mentee's].
        cohorts: The clients selected for rounds 1, 2, ...
        batches: The batches of phase 0, the only one.
        rule: The optimiser of the mentor.
        small_body: The body of the mentee; its parameters are named "small_body.".
        small_head: The head of the mentee; its parameters are named "small_head.".
        small: Theta^s before round 1.
        small_rule: The optimiser of mentee and W_i; that of the mentor if there is none.
        t_start: T_start.
        t_end: T_end.
        rounds: R, the number of rounds planned; that of cohorts if there is none.
        diagonal: What Sigma counts for, wherever numbers are counted or compared.
        all_know_initial: Whether every client has Theta^s of before round 1 without being sent it.

    Returns:
        The mentees of the server, the networks of the clients, and what was sent.
    """
    R = len(cohorts) if rounds is None else rounds
    mentee = copied(small)
    held = [copied(part(client.params, "body", "head", "projection")) for client in clients]
    shared: list[Params | None] = [copied(small) if all_know_initial else None for _ in clients]
    seen = [0 for _ in clients]  # how many rounds' broadcasts are in shared[k]
    server: list[Params] = []
    sent: list[Message] = []
    uploaded: list[dict[int, int]] = []
    downloaded: list[dict[int, int]] = []
    for t, cohort in enumerate(cohorts, start=1):
        threshold = energy_threshold(t, R, t_start, t_end)
        up: dict[int, int] = {}
        down: dict[int, int] = {}
        g: list[Params] = []
        for i in selected(cohort):
            start, down[i] = brought_up_to_date(shared[i], sent[seen[i] :], mentee, diagonal)  # 19 to 22
            shared[i] = start
            seen[i] = len(sent)
            theta_t, theta_s, W = local_training(
                clients[i], held[i], start, batches(t, i, 0), rule, small_body, small_head, small_rule or rule
            )
            held[i] = {**theta_t, **W, **theta_s}
            message = {n: factorised(theta_s[n] - start[n], threshold, diagonal) for n in start}  # 8
            up[i] = message_numbers(message, diagonal)
            g.append({n: multiplied_out(message[n]) for n in message})  # 12
        broadcast: Message = {}
        if g:
            mean = {n: average([g_i[n] for g_i in g]) for n in mentee}  # 13 to 16, and the division of 22
            broadcast = {n: factorised(mean[n], threshold, diagonal) for n in mentee}  # 17
            mentee = added(mentee, broadcast)
        server.append(copied(mentee))
        sent.append(broadcast)
        uploaded.append(up)
        downloaded.append(down)
    return FedKDRun(server, held, shared, sent, uploaded, downloaded)
