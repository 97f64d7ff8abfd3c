"""Small runs to be damaged, disturbed and killed, and what they end in when nothing happens to them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attack.judging import HELD, Ran, Verdict, command, fell, first_fault, last_line, refused
from attack.material import data, once
from potluck.run.record import RunRecord

ROUNDS, SAMPLES = 4, 60
METHODS = {
    "pfedes": ("--fraction", "0.6", "--set", "algorithm.extractor_epochs=1"),
    "fedproto": ("--fraction", "0.6", "--models", "mlp-8,mlp-12-8"),
    "kt-pfl": ("--set", "public=16"),
    "fd": ("--fraction", "0.6", "--models", "mlp-8,mlp-12-8"),
}
"""Methods whose runs are attacked, and the flags that suit them."""


def flags(method: str = "pfedes", every: int = 1, seed: int = 0, rounds: int = ROUNDS) -> tuple[object, ...]:
    """What is typed after ``potluck run``, but for the folder."""
    return (
        *(
            method,
            "--data",
            data(samples=SAMPLES),
            "--partition",
            "iid",
            "--clients",
            5,
            "--rounds",
            rounds,
            "--models",
            "mlp-8",
        ),
        *("--device", "cpu", "--seed", seed, "--set", f"checkpoint_every={every}", "--set", "evaluate_every=2"),
        *METHODS[method],
    )


def after_round(number: int, do: Callable[[], object]) -> None:
    """In this process, do something at the end of a round, before a checkpoint of it."""
    commit = RunRecord.commit_round

    def commit_and_do(record: RunRecord, round: dict[str, Any], clients: list[dict[str, Any]]) -> None:
        commit(record, round, clients)
        if round["round"] == number:
            do()

    RunRecord.commit_round = commit_and_do  # type: ignore[method-assign, assignment]  # this process ends with the run


def end_at_once() -> None:
    """End this process as a kill does."""
    os._exit(137)


def stopped(method: str = "pfedes", every: int = 1, seed: int = 0) -> Path:
    """A run that was killed before the checkpoint of its last round; not to be changed, but to be copied."""

    def make(path: Path) -> None:
        path.mkdir()
        ran = command(
            "run",
            *flags(method, every, seed),
            "--out",
            path / "run",
            first=lambda: after_round(ROUNDS, end_at_once),
        )
        assert ran.code == 137, ran.err

    return once(f"stopped-{method}-{every}-{seed}", make) / "run"


def whole(method: str = "pfedes", every: int = 1, seed: int = 0) -> Path:
    """The same run, undisturbed."""

    def make(path: Path) -> None:
        path.mkdir()
        ran = command("run", *flags(method, every, seed), "--out", path / "run")
        assert ran.code == 0, ran.err

    return once(f"whole-{method}-{every}-{seed}", make) / "run"


def result(run: Path) -> dict[str, Any]:
    """What came of a run, but for times."""
    found = {name: (run / name).read_text() for name in ("rounds.jsonl", "clients.jsonl", "summary.json")}
    return {name: re.sub(r'"seconds": [0-9.e-]+', "", text) for name, text in found.items()}


def states(run: Path) -> dict[str, bytes]:
    """Weights at the end of a run: of the server and of every client."""
    manifest = max((run / "checkpoint").iterdir()) / "manifest.json"
    clients = json.loads(manifest.read_text())["checkpoint"]["clients"]
    names = [f"clients/{client}/round-{made:05d}.safetensors" for client, (made, _) in clients.items()]
    server = (manifest.parent / "server.safetensors").read_bytes()
    return {"server": server} | {name: (run / name).read_bytes() for name in names}


def names(run: Path) -> set[str]:
    """Everything in a run's folder, and what is beside it."""
    return {str(path.relative_to(run.parent)) for path in run.parent.rglob("*")}


def same(run: Path, expected: Path) -> Verdict:
    """Held if a run came to the same end as another."""
    try:
        if result(run) != result(expected):
            return Verdict("silent", "another result")
        if states(run) != states(expected):
            return Verdict("silent", "other weights")
    except (OSError, ValueError, KeyError) as error:
        return Verdict("silent", f"it ended, and is not whole: {error!r}")
    return HELD


def tidy(run: Path, expected: Path) -> Verdict:
    """Held if a run's folder, and what is beside it, has the files of another and no more."""
    more = names(run) - {str(Path(run.name) / Path(name).relative_to(expected.name)) for name in names(expected)}
    return Verdict("harmed", f"left behind: {', '.join(sorted(more))}") if more else HELD


def fine(ran: Ran, run: Path, expected: Path, *says: str) -> Verdict:
    """Held if a command gave the right result, or refused in one message and left the records as they were."""
    if verdict := fell(ran):
        return verdict
    if ran.code == 0:
        return first_fault(same(run, expected), _silent(ran, says))
    return refused(ran, *says)


def _silent(ran: Ran, says: tuple[str, ...]) -> Verdict:
    missing = [text for text in says if text not in ran.out + ran.err]
    return Verdict("silent", f"does not say {missing[0]!r}: {last_line(ran)}") if missing else HELD


def resume(run: Path, expected: Path | None = None, *says: str) -> Verdict:
    """Resume a run that something was done to, and judge that; a refusal changes no record before the checkpoint."""
    records = [run / name for name in ("rounds.jsonl", "clients.jsonl")]
    before = [path.read_bytes() if path.is_file() else None for path in records]
    ran = command("resume", run)
    verdict = fine(ran, run, expected or whole(), *says)
    after = [path.read_bytes() if path.is_file() else None for path in records]
    kept = all(old == new or (old or b"").startswith(new or b"-") for old, new in zip(before, after, strict=True))
    if verdict.outcome == "held" and ran.code != 0 and not kept:
        return Verdict("harmed", f"refused, and changed the records: {last_line(ran)}")
    return verdict
