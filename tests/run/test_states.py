"""The states of clients: in memory, in files, and back to what a checkpoint says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from potluck.algorithms.uploads import State
from potluck.errors import RunError
from potluck.run.states import ClientStates

SIZE = 40
"""Bytes of a state here."""


def state(client: int, round: int) -> State:
    return {"w": torch.full((10,), 100.0 * round + client)}


def held(states: ClientStates, client: int) -> float | None:
    """What tells one state from another."""
    found = states.get(client)
    return None if found is None else float(found["w"][0])


def train(states: ClientStates, round: int, *clients: int) -> None:
    for client in clients:
        states.stage(client, round, state(client, round))
    states.commit()


@pytest.mark.parametrize("memory", [0, SIZE, 3 * SIZE, 1 << 20])
def test_latest_committed_state_is_held(tmp_path: Path, memory: int) -> None:
    states = ClientStates(tmp_path, memory)
    expected: dict[int, float] = {}
    draw = random.Random(1)  # noqa: S311
    for round in range(1, 30):
        cohort = draw.sample(range(6), 3)
        for client in cohort:
            states.stage(client, round, state(client, round))
            # A round that is not over does not count: its clients may still be asked for what they held before.
            assert held(states, client) == expected.get(client)
        if round % 4 == 0:
            states.discard()
        else:
            states.commit()
            expected |= {client: 100.0 * round + client for client in cohort}
        if round % 7 == 0:
            states.prune([states.flush()])
        assert [held(states, client) for client in range(7)] == [expected.get(client) for client in range(7)]


def test_never_trained(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    assert states.get(0) is None
    states.stage(0, 1, state(0, 1))
    assert states.get(0) is None
    states.discard()
    assert states.get(0) is None
    assert states.flush() == {}
    assert not list(tmp_path.iterdir())


def test_without_a_folder_all_stay_in_memory() -> None:
    states = ClientStates(None, memory=0)
    train(states, 1, *range(20))
    assert [held(states, client) for client in range(20)] == [100.0 + client for client in range(20)]


def test_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, memory=3 * SIZE)
    train(states, 1, *range(3))
    assert not list(tmp_path.iterdir())  # there was room
    train(states, 2, *range(10))
    for client in range(10):
        assert held(states, client) == 200.0 + client
        assert states._bytes == sum(SIZE for _ in states._memory) <= 3 * SIZE


def test_a_discarded_state_may_be_made_again(tmp_path: Path) -> None:
    states = ClientStates(tmp_path, memory=0)
    train(states, 1, 0, 1)
    for client in (0, 1):
        states.stage(client, 2, {"w": torch.zeros(10)})  # written, as there is no room, and then given up
    states.discard()
    assert held(states, 0) == 100.0
    train(states, 2, 0, 1)
    restored = ClientStates(tmp_path)
    restored.restore(states.flush())
    assert (held(restored, 0), held(restored, 1)) == (200.0, 201.0)


def test_flush_and_restore(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    train(states, 1, 0, 1, 2)
    train(states, 2, 1)
    versions = states.flush()
    assert list(versions) == [0, 1, 2]
    assert [round for round, _ in versions.values()] == [1, 2, 1]
    train(states, 3, 0, 2, 3)
    states.flush()
    restored = ClientStates(tmp_path)
    restored.restore(versions)
    assert [held(restored, client) for client in range(4)] == [100.0, 201.0, 102.0, None]
    assert restored.flush() == versions
    states.restore(versions)  # also where there is something to forget
    assert [held(states, client) for client in range(4)] == [100.0, 201.0, 102.0, None]


def test_a_state_that_cannot_be_written_is_an_error_and_no_version(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    train(states, 1, *range(6))
    (tmp_path / "3").write_text("in the way")
    with pytest.raises(RunError, match="3 is a file, and has to be a folder: remove it"):
        states.flush()
    (tmp_path / "3").unlink()
    assert list(states.flush()) == list(range(6))
    assert not list(tmp_path.rglob("*.part"))


def test_flush_writes_nothing_twice(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    train(states, 1, 0, 1)
    versions = states.flush()
    made = {client: states.path(client, version).stat().st_mtime_ns for client, version in versions.items()}
    train(states, 2, 1)
    states.flush()
    assert states.path(0, versions[0]).stat().st_mtime_ns == made[0]
    assert states.path(1, versions[1]).stat().st_mtime_ns == made[1]  # what a checkpoint refers to is never touched


def test_prune_keeps_what_checkpoints_need_and_what_is_not_ours(tmp_path: Path) -> None:
    states = ClientStates(tmp_path)
    train(states, 1, 0, 1, 2)
    first = states.flush()
    train(states, 2, 0)
    second = states.flush()
    train(states, 3, 0)
    third = states.flush()
    (tmp_path / "0/.round-00004.safetensors.99.part").write_text("half")
    (tmp_path / "5").mkdir()
    (tmp_path / "notes.txt").write_text("a user's")
    (tmp_path / "1/notes.txt").write_text("a user's")
    states.prune([second, third])
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    files = ["0/round-00002", "0/round-00003", "1/round-00001", "2/round-00001"]
    assert found == sorted([*(f"{name}.safetensors" for name in files), "1/notes.txt", "notes.txt"])
    assert not (tmp_path / "5").exists()
    for versions in (second, third):
        restored = ClientStates(tmp_path)
        restored.restore(versions)
        assert all(restored.get(client) is not None for client in versions)
    lost = ClientStates(tmp_path)
    lost.restore(first)
    with pytest.raises(RunError, match=r"cannot read .*round-00001\.safetensors"):
        lost.get(0)


def test_prune_of_nothing(tmp_path: Path) -> None:
    ClientStates(tmp_path / "nowhere").prune([])
    ClientStates(None).prune([])


def test_files_of_states_that_nobody_holds_do_not_pile_up(tmp_path: Path) -> None:
    """Between checkpoints too: a state that was written for want of room goes when its client trains again."""
    states = ClientStates(tmp_path, memory=0)
    for round in range(1, 6):
        train(states, round, *range(3))
        if round == 2:
            kept = states.flush()
    left = sorted(path.name for path in tmp_path.glob("0/*"))
    assert "round-00002.safetensors" in left  # a checkpoint refers to it
    assert len(left) <= 2
    states.restore(kept)
    assert held(states, 0) == 200.0
