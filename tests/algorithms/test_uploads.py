"""Every crafted upload of the attack is refused by a message that names the client, or accepted for a reason."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from attack.crafted import ACCEPTED, CLIENT, Sends, after_a_round, check, uploads
from potluck.algorithms import Algorithm, State, Upload, algorithm, names
from potluck.algorithms.admission import aggregated
from potluck.algorithms.pfedes import PFedES
from potluck.contract import Round, Task
from potluck.errors import InterruptedRunError, PayloadError, TrainingError
from potluck.payload import Payload

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ALL = list(uploads())


def test_there_are_many_for_every_method() -> None:
    counts = Counter(crafted.method for crafted in ALL)
    assert sorted(counts) == names()
    assert counts.total() >= 500
    assert min(counts.values()) >= 20
    # Every rule that accepts is one that something is accepted by.
    assert {crafted.what for crafted in ALL if crafted.accepted} == ACCEPTED.keys()


@pytest.mark.parametrize("method", names())
def test_each_is_refused_or_accepted_for_a_reason(method: str) -> None:
    wrong = []
    for crafted in (crafted for crafted in ALL if crafted.method == method):
        try:
            check(crafted)
        except PayloadError as error:
            if crafted.accepted or not str(error).startswith(f"client {CLIENT} sent "):
                wrong.append(f"{crafted.what}: {error}")
        except Exception as error:
            wrong.append(f"{crafted.what}: {error!r}")
        else:
            if not crafted.accepted:
                wrong.append(f"{crafted.what}: accepted")
    assert not wrong


@pytest.mark.parametrize("method", names())
def test_what_is_accepted_is_so_after_the_wire(method: str) -> None:
    for crafted in (crafted for crafted in ALL if crafted.method == method and crafted.accepted):
        data = crafted.make().encode()
        check(replace(crafted, make=partial(Payload.decode, data)))


@pytest.mark.parametrize(
    ("method", "what"),
    [
        *(("pfedes", what) for what in ("sparse", "meta", "nested", "float8", "65 dimensions", "NaN", "samples = 0")),
        ("fedproto", "counts = 2**31 - 1"),
        ("kt-pfl", "sums of 2"),
    ],
)
def test_the_round_loop_refuses_it_too_and_leaves_the_round_before(method: str, what: str) -> None:
    of = Sends(method)
    of.run(1)
    before = {name: tensor.clone() for name, tensor in of.federation.server.items()}
    of.told = next(each for each in ALL if (each.method, each.what) == (method, what)).make
    with pytest.raises(PayloadError, match=f"^client {CLIENT} sent "):
        of.run(2)
    assert of.federation.rounds == 1
    assert all(torch.equal(tensor, of.federation.server[name]) for name, tensor in before.items())


# ---- a server whose numbers are no longer finite --------------------------------------------------------------------


def filled(of: Sends, value: float) -> Callable[[], Payload]:
    return lambda: Payload(
        {n: torch.full_like(t, value) if t.is_floating_point() else t for n, t in of.good.tensors.items()}
    )


@pytest.mark.parametrize("method", ["fedgh", "fedtgp"])
def test_the_client_that_spoils_the_servers_state_is_named(method: str) -> None:
    of = Sends(method)
    of.told = filled(of, 3e38)
    said = rf"not finite after round 1, because of what client {CLIENT} sent: numbers up to 3e\+38"
    with pytest.raises(PayloadError, match=said):
        of.run(1)
    assert of.federation.rounds == 0


class Sums(PFedES):
    """Adds up what the clients send."""

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        parts = [upload.payload.tensors for upload in uploads]
        return {name: torch.stack([part[name] for part in parts]).sum(0) for name in state}


def summed(values: Sequence[float], method: Algorithm | None = None, **how: Any) -> State:
    sent = [Upload(3 * n, Payload({"w": torch.full((2,), value)})) for n, value in enumerate(values)]
    return aggregated(method or Sums(), {"w": torch.zeros(2)}, sent, Round(3, 9), Task((2,), classes=2), **how)


def test_where_nobody_spoils_it_alone_the_one_without_whom_it_is_not_spoilt_is_named() -> None:
    with pytest.raises(PayloadError, match="because of what client 3 sent"):
        summed([1e38, 3e38, 1e38])
    assert torch.isfinite(summed([1e38, 1e38, 1e38])["w"]).all()


def test_where_nobody_is_to_blame_more_than_others_nobody_is_named() -> None:
    with pytest.raises(TrainingError, match=r"not finite after round 3\. Try smaller learning rates"):
        summed([1.2e38] * 5)


def test_only_those_with_the_largest_numbers_are_tried() -> None:
    """Each try costs as much as a round of the server."""
    tries: list[int] = []

    class Counts(Sums):
        def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
            tries.append(len(uploads))
            return super().aggregate(state, uploads, round, task)

    with pytest.raises(PayloadError, match=r"because of what client 300 sent: numbers up to 3\.3e\+38"):
        summed([*[1e5 + number for number in range(99)], 1e38, 3.3e38, 2e37], Counts())
    assert len(tries) <= 1 + 2 * 16


class Diverges(Sums):
    """Whose state is never finite."""

    def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
        return {name: tensor * torch.inf for name, tensor in super().aggregate(state, uploads, round, task).items()}


def test_where_far_more_uploads_than_are_tried_spoil_it_the_settings_are_to_blame() -> None:
    with pytest.raises(TrainingError, match=r"not finite after round 3\. Try smaller learning rates"):
        summed([1e5 + number for number in range(40)], Diverges())


def test_a_stop_ends_the_search() -> None:
    def stop() -> None:
        raise InterruptedRunError("stopped.")

    with pytest.raises(InterruptedRunError):
        summed([1e38, 3e38, 1e38], check_stop=stop)


def test_the_servers_state_holds_no_graph() -> None:
    class Learns(Sums):
        def aggregate(self, state: State, uploads: Sequence[Upload], round: Round, task: Task) -> State:
            return {name: 2 * tensor.requires_grad_() for name, tensor in state.items()}

    assert not summed([1.0, 2.0], Learns())["w"].requires_grad


def test_where_every_upload_spoils_it_the_settings_are_to_blame() -> None:
    of = Sends("fedgh", header_learning_rate=1e300)
    with pytest.raises(TrainingError, match=r"not finite after round 1\. Try smaller learning rates"):
        of.run(1)


def test_of_one_client_alone_both_reasons_are_given() -> None:
    of, method = after_a_round("fedgh"), algorithm("fedgh", {"header_learning_rate": 1e300})
    with pytest.raises(TrainingError, match=r"in which client 2 alone took part; the largest .*; if not, try"):
        aggregated(method, of.state, [Upload(2, of.good)], Round(1, 1), of.task)
