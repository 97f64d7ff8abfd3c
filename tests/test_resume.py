"""A run can be killed at any moment, and resumes to the same result, bit for bit.

``POTLUCK_KILLS`` is how often the killing test kills, 3 times if it is not set.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from potluck.data import sources
from potluck.errors import DataWarning, RunError
from potluck.experiment import open_run
from potluck.federation import Federation
from potluck.run.record import RunRecord
from run import tiny

KILLS = int(os.environ.get("POTLUCK_KILLS", "3"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of this file, never interrupted."""
    path = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        assert tiny.call(patch, "run", *tiny.PARTIAL, "--out", path) == 0
    return path


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, stopped after round 5: there are checkpoints of rounds 4 and 5."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        _after_round(patch, 5, tiny.interrupt)
        assert tiny.call(patch, "run", *tiny.PARTIAL, "--out", path) == 130
    return path


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    """A copy of the stopped run."""
    return shutil.copytree(stopped, tmp_path / "run")


def _after_round(patch: pytest.MonkeyPatch, number: int, do: Callable[[], object]) -> None:
    """Do something at the end of a round, before any checkpoint of it."""
    commit = RunRecord.commit_round

    def commit_and_do(record: RunRecord, round: dict[str, int], clients: list[dict[str, object]]) -> None:
        commit(record, round, clients)
        if round["round"] == number:
            do()

    patch.setattr(RunRecord, "commit_round", commit_and_do)


def assert_same_result(run: Path, whole: Path) -> None:
    """Everything is the same but for times, and with them how long the records of the checkpoint are."""
    for name in ("config.toml", "summary.json", "clients.jsonl"):
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name
    assert tiny.rounds(run) == tiny.rounds(whole)
    assert _without_seconds(run) == _without_seconds(whole)
    mine, theirs = _newest_checkpoint(run), _newest_checkpoint(whole)
    records = {name: (run / name).read_bytes() for name in ("rounds.jsonl", "clients.jsonl")}
    assert mine.pop("records") == {name: [len(held), zlib.crc32(held)] for name, held in records.items()}
    assert theirs.pop("records")
    assert mine == theirs
    files = ["checkpoint/round-00008/server.safetensors"]
    files += [f"clients/{client}/round-{round:05d}.safetensors" for client, (round, _) in mine["clients"].items()]
    assert all((run / name).read_bytes() == (whole / name).read_bytes() for name in files)
    assert {path.name for path in run.iterdir()} == {path.name for path in whole.iterdir()}
    assert not list(run.rglob("*.part"))


def _newest_checkpoint(run: Path) -> dict[str, Any]:
    manifest = max((run / "checkpoint").iterdir()) / "manifest.json"
    checkpoint: dict[str, Any] = json.loads(manifest.read_text())["checkpoint"]
    return checkpoint


def _without_seconds(run: Path) -> bytes:
    return re.sub(rb'"seconds": [0-9.e-]+', b"", (run / "rounds.jsonl").read_bytes())


STOPPING = "\nStopping after the step that is running ...\n"

# ---- killed, stopped ------------------------------------------------------------------------------------------


def test_killed_at_random_moments(whole: Path, tmp_path: Path) -> None:
    begin = time.perf_counter()
    assert tiny.finish(tiny.start("run", *tiny.PARTIAL, "--out", tmp_path / "process")).code == 0
    duration = time.perf_counter() - begin
    assert_same_result(tmp_path / "process", whole)
    moments, kills, runs = random.Random(0), 0, 0  # noqa: S311
    while kills < KILLS:
        runs += 1
        kills += _kill_until_done(tmp_path / str(runs), duration, KILLS - kills, moments)
        assert_same_result(tmp_path / str(runs), whole)


def _kill_until_done(run: Path, duration: float, most: int, moments: random.Random) -> int:
    """Start a run and kill it, at most so many times, until it is finished; how often it was killed."""
    kills = 0
    while not (run / "summary.json").exists():
        process = tiny.start(*(("resume", run) if run.exists() else ("run", *tiny.PARTIAL, "--out", run)))
        try:
            process.wait(moments.uniform(0, duration) if kills < most else 300)
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        ran = tiny.finish(process)
        assert ran.code in (0, -signal.SIGKILL), ran.err
    return kills


def test_interrupted_from_outside(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = tiny.start("run", *tiny.PARTIAL, "--rounds", 100_000, "--out", run)
    while process.poll() is None and not (run / "rounds.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    ran = tiny.finish(process)
    assert (ran.code, ran.err) == (130, STOPPING)
    said = re.search(r"^Stopped after round (\d+)\. Go on with it: potluck resume (.*)$", ran.out, re.MULTILINE)
    assert said is not None, ran.out
    assert said[2] == str(run)
    assert len(tiny.rounds(run)) == int(said[1])
    assert (run / f"checkpoint/round-{int(said[1]):05d}/manifest.json").exists()


@pytest.mark.parametrize(("number", "round"), [(signal.SIGINT, 1), (signal.SIGTERM, 4), (signal.SIGINT, 7)])
def test_stopped_and_resumed(
    potluck: tiny.Command, whole: Path, tmp_path: Path, number: signal.Signals, round: int
) -> None:
    run, handlers = tmp_path / "run", [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)]
    with pytest.MonkeyPatch.context() as patch:
        _after_round(patch, round, lambda: tiny.interrupt(number))
        ran = potluck("run", *tiny.PARTIAL, "--out", run)
    assert (ran.code, ran.err) == (130, STOPPING)
    assert f"\nStopped after round {round}. Go on with it: potluck resume {run}\n" in ran.out
    assert [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)] == handlers
    resumed = potluck("resume", run)
    assert (resumed.code, resumed.err) == (0, "")
    assert resumed.out.startswith(f"Going on with {run} after round {round} of 8.\n")
    assert_same_result(run, whole)


def test_second_interrupt_ends_at_once(potluck: tiny.Command, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def twice() -> None:
        tiny.interrupt()
        os.kill(os.getpid(), signal.SIGINT)
        tiny.wait_for(lambda: False)  # here it is interrupted, or fails

    with pytest.MonkeyPatch.context() as patch:
        _after_round(patch, 3, twice)
        ran = potluck("run", *tiny.PARTIAL, "--out", run)
    assert (ran.code, ran.err) == (130, STOPPING)
    assert f"Stopped at once. Go on with it: potluck resume {run}\n" in ran.out
    assert potluck("resume", run).code == 0
    assert_same_result(run, whole)


def test_killed_between_the_last_round_and_the_summary(potluck: tiny.Command, whole: Path, tmp_path: Path) -> None:
    run = shutil.copytree(whole, tmp_path / "run")
    (run / "summary.json").unlink()
    (run / ".summary.json.99.part").write_text('{"version"')
    resumed = potluck("resume", run, "--json")
    assert resumed.code == 0
    assert json.loads(resumed.out) == json.loads((whole / "summary.json").read_text())
    assert_same_result(run, whole)


def test_resumed_from_another_folder(
    potluck: tiny.Command, run: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    moved = run.rename(tmp_path / "moved")
    assert potluck("resume", ".").code == 0
    assert_same_result(moved, whole)


# ---- what cannot be resumed -----------------------------------------------------------------------------------


def _refused(potluck: tiny.Command, run: Path) -> str:
    """The one message; the run is as it was."""
    before = tiny.tree(run)
    ran = potluck("resume", run)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("potluck: ")
    assert ran.err.count("\n") == 1
    (run / ".lock").touch()
    assert tiny.tree(run) == {".lock": b"", **before}
    return ran.err


def test_no_run(potluck: tiny.Command, tmp_path: Path) -> None:
    ran = potluck("resume", tmp_path / "nowhere")
    said = f"potluck: no run in {tmp_path / 'nowhere'}: there is no config.toml in it.\n"
    assert ran == (2, "", said)
    (tmp_path / "file").write_text("")
    assert potluck("resume", tmp_path / "file").err == said.replace("nowhere", "file")
    (tmp_path / "run").mkdir()
    assert potluck("resume", tmp_path / "run").err == said.replace("nowhere", "run")
    assert not tiny.tree(tmp_path / "run")


def test_finished_run(potluck: tiny.Command, whole: Path) -> None:
    assert f"{whole} is finished. See it: potluck show {whole}" in _refused(potluck, whole)


@pytest.mark.parametrize(
    ("line", "changed", "said"),
    [
        ("epochs = 1", "epochs = 2", "epochs was 1, now 2. Put it back, or start a new run."),
        ("mu = 0.1", "mu = 0.2", "algorithm.mu was 0.1, now 0.2. Put it back"),
        ("rounds = 8", "rounds = 15", "rounds was 8, now 15. Put it back"),
        ("seed = 0", "seed = 1\nsplit = '7:3'", "seed was 0, now 1; split was None, now '7:3'. Put it back"),
    ],
)
def test_changed_configuration(potluck: tiny.Command, run: Path, line: str, changed: str, said: str) -> None:
    file = run / "config.toml"
    assert f"\n{line}\n" in file.read_text()
    file.write_text(file.read_text().replace(f"\n{line}\n", f"\n{changed}\n"))
    message = _refused(potluck, run)
    assert f"the configuration of {run} has changed since its checkpoint: {said}" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"seed = ", "config.toml is not valid TOML: "),
        (b"seed = '\xff'", "config.toml is damaged: it is no UTF-8 text"),
        (b"sede = 0\nalgorithm = 'pfedes'", "unknown setting 'sede': did you mean 'seed'?"),
        (b"version = 2\nalgorithm = 'pfedes'", "version: 2 is not 1"),
    ],
)
def test_damaged_configuration(potluck: tiny.Command, run: Path, content: bytes, said: str) -> None:
    (run / "config.toml").write_bytes(content)
    assert said in _refused(potluck, run)


def test_another_process_is_at_it(potluck: tiny.Command, run: Path) -> None:
    import fcntl

    with (run / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = _refused(potluck, run)
    assert said == f"potluck: {run} is being run by another process: wait for it, or stop it.\n"


# ---- damaged checkpoints --------------------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def _newest_client_file(run: Path) -> Path:
    return max(run.glob("clients/*/round-*.safetensors"), key=lambda path: path.name)


SERVER, MANIFEST = "checkpoint/round-00005/server.safetensors", "checkpoint/round-00005/manifest.json"
# More kinds of damage are in run/test_checkpoint.py.
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "server altered": (lambda run: _alter(run / SERVER), "server.safetensors is missing or damaged"),
    "client truncated": (lambda run: _truncate(_newest_client_file(run)), "round-00005.safetensors is missing or dam"),
    "client missing": (lambda run: _newest_client_file(run).unlink(), "round-00005.safetensors is missing or damaged"),
    "manifest truncated": (lambda run: _truncate(run / MANIFEST), "its manifest is damaged"),
    "records too short": (lambda run: _truncate(run / "rounds.jsonl"), "rounds.jsonl is missing, too short or changed"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_newest_checkpoint(potluck: tiny.Command, run: Path, whole: Path, damage: str) -> None:
    do, said = DAMAGE[damage]
    do(run)
    resumed = potluck("resume", run)
    assert (resumed.code, resumed.err) == (0, "")
    first, second, *_ = resumed.out.splitlines()
    assert first.startswith("The checkpoint of round 5 is not usable: ")
    assert said in first
    assert second == f"Going on with {run} after round 4 of 8."
    assert_same_result(run, whole)


def test_checkpoint_half_written(potluck: tiny.Command, run: Path, whole: Path) -> None:
    # As a process leaves it that is killed while it writes one: that is no damage, and nobody need be told.
    (run / MANIFEST).rename(run / "checkpoint/round-00005/.manifest.json.99.part")
    resumed = potluck("resume", run)
    assert resumed.code == 0
    assert resumed.out.startswith(f"Going on with {run} after round 4 of 8.\n")
    assert_same_result(run, whole)


def test_two_damaged_checkpoints(potluck: tiny.Command, run: Path) -> None:
    _alter(run / "checkpoint/round-00004/server.safetensors")
    (run / MANIFEST).write_text("{}")
    message = _refused(potluck, run)
    assert f"{run} cannot be resumed. The checkpoint of round 5 is not usable: its manifest is damaged. " in message
    assert f"The checkpoint of round 4 is not usable: {run}/checkpoint/round-00004/server.safetensors is " in message
    assert message.endswith("Start it again in a new folder.\n")


def test_records_cut_short(potluck: tiny.Command, run: Path) -> None:
    for name in ("rounds.jsonl", "clients.jsonl"):
        (run / name).write_bytes(b"")
    assert "rounds.jsonl is missing, too short or changed" in _refused(potluck, run)


# ---- the disk is full -----------------------------------------------------------------------------------------


def test_records_that_cannot_be_written(potluck: tiny.Command, whole: Path, tmp_path: Path) -> None:
    run, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited() -> None:
        # There is room for a part of the next line.
        most = (run / "clients.jsonl").stat().st_size + 50
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))

    with pytest.MonkeyPatch.context() as patch:
        _after_round(patch, 4, limited)
        try:
            ran = potluck("run", *tiny.PARTIAL, "--set", "checkpoint_every=3", "--out", run)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ran.code == 2
    assert re.fullmatch(
        rf"potluck: cannot write {run}/clients.jsonl: File too large\. The rounds before are kept: .*\n", ran.err
    )
    assert [record["round"] for record in tiny.rounds(run)] == [1, 2, 3, 4]
    assert potluck("show", run).code == 0
    resumed = potluck("resume", run)
    assert resumed.code == 0
    assert f"Going on with {run} after round 3 of 8.\n" in resumed.out
    assert (run / "summary.json").read_bytes() == (whole / "summary.json").read_bytes()
    assert (run / "clients.jsonl").read_bytes() == (whole / "clients.jsonl").read_bytes()
    assert tiny.rounds(run) == tiny.rounds(whole)


def test_checkpoint_that_cannot_be_written(potluck: tiny.Command, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def full(_path: Path, _target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        _after_round(patch, 4, lambda: patch.setattr(Path, "replace", full))
        ran = potluck("run", *tiny.PARTIAL, "--out", run)
    assert ran.code == 2
    assert re.fullmatch(
        rf"potluck: cannot write {run}/\S+: No space left on device\. The rounds before are kept: .*\n", ran.err
    )
    assert [path.parent.name for path in run.glob("checkpoint/*/manifest.json")] == ["round-00002"]
    assert not list(run.rglob("*.part"))
    resumed = potluck("resume", run)
    assert resumed.out.startswith(f"Going on with {run} after round 2 of 8.\n")
    assert_same_result(run, whole)


# ---- others at work in the folder --------------------------------------------------------------------------------


def test_folder_moved_while_it_runs(potluck: tiny.Command, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        _after_round(patch, 3, lambda: run.rename(tmp_path / "moved"))
        ran = potluck("run", *tiny.PARTIAL, "--out", run)
    assert ran.code == 2
    assert ran.err == (
        f"potluck: {run} was deleted or moved while the run was going on, and nothing more is written. Put it back as "
        f"it was and go on from the last checkpoint (potluck resume {run}; restore() in Python), or start a new run.\n"
    )
    assert "Written to" not in ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]
    (tmp_path / "moved").rename(run)
    assert potluck("resume", run).code == 0
    assert_same_result(run, whole)


# ---- in Python ------------------------------------------------------------------------------------------------


def test_run_opened_to_read_is_not_changed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    before = tiny.tree(run)
    opened = open_run(run)
    assert isinstance(opened, Federation)
    assert opened.rounds == 5
    assert opened.predict(2, tiny.load().x[:5]).shape == (5,)
    assert tiny.tree(run) == before


def test_run_opened_at_an_older_checkpoint_says_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    (run / "checkpoint/round-00005/manifest.json").write_text("{}")
    with pytest.warns(DataWarning, match=r"after round 4\. The checkpoint of round 5 is not usable") as caught:
        assert open_run(run).rounds == 4
    assert caught[0].filename == __file__


@pytest.mark.parametrize("finished", [True, False])
def test_run_without_checkpoints_is_not_opened(
    run: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    run = shutil.copytree(whole, tmp_path / "finished") if finished else run
    shutil.rmtree(run / "checkpoint")
    before = tiny.tree(run)
    says = "run it again in a new folder" if finished else f"Go on with it: potluck resume {run}"
    with pytest.raises(RunError, match=f"has no checkpoint, and with it no trained networks to open.*{says}"):
        open_run(run)
    assert tiny.tree(run) == before


@pytest.mark.parametrize("damaged", [True, False])
def test_finished_run_is_opened_at_its_end_alone(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
    run = shutil.copytree(whole, tmp_path / "run")
    assert open_run(run).rounds == 8
    manifest = run / "checkpoint/round-00008/manifest.json"
    if damaged:
        manifest.write_text("{}")
    else:
        manifest.unlink()
    says = "The checkpoint of round 8 is not usable" if damaged else "A newer checkpoint is missing"
    with pytest.raises(RunError, match=f"newest whole checkpoint is of round 6, not of its last. {says}"):
        open_run(run)
