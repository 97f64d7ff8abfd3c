"""What others do to a run's folder while the run goes on."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from attack import runs
from attack.judging import Case, Verdict, command, fell, first_fault, last_line, refused, start, unharmed
from attack.material import both, contents, copy_of, each, made_empty
from potluck.run.folder import RunFolder

Change = Callable[[Path], object]
EARLY, LAST = 2, runs.ROUNDS


def _append(name: str, text: bytes) -> Change:
    def do(run: Path) -> None:
        with (run / name).open("ab") as file:
            file.write(text)

    return do


def _again(name: str) -> Change:
    """The same content in a new file, as editors write it."""

    def do(run: Path) -> None:
        content = (run / name).read_bytes()
        (run / name).unlink()
        (run / name).write_bytes(content)

    return do


def _edit(name: str) -> Change:
    def do(run: Path) -> None:
        with (run / name).open("r+b") as file:
            file.write(b"[")

    return do


def _instead(name: str, make: Callable[[Path], object]) -> Change:
    def do(run: Path) -> None:
        (run / name).unlink()
        make(run / name)

    return do


def _each_state(do: Callable[[Path], object]) -> Change:
    return each("clients/*/*", do)


def _in_the_way(run: Path) -> None:
    for client in range(5):
        for number in range(EARLY + 1, LAST + 1):
            path = run / f"clients/{client}/round-{number:05d}.safetensors"
            if not path.exists():
                path.mkdir(parents=True)


def _on(name: str, do: Callable[[Path], object]) -> Change:
    return lambda run: do(run / name)


def _another(run: Path) -> None:
    shutil.copytree(run, run.with_name("copy"))
    shutil.rmtree(run)
    run.with_name("copy").rename(run)


def _instead_of(name: str, target: str) -> Change:
    """A link to what lies outside, in place of a file or folder of the run."""

    def do(run: Path) -> None:
        path, there = run / name, run.parent / target
        assert there.exists(), there
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(there)

    return do


def _into_link(name: str) -> Change:
    def do(run: Path) -> None:
        target = run.with_name("elsewhere")
        shutil.move(run / name, target)
        (run / name).symlink_to(target)

    return do


CHANGES: dict[str, Change] = {
    "folder deleted": shutil.rmtree,
    "folder moved": lambda run: run.rename(run.with_name("moved")),
    "folder replaced by a copy": _another,
    "folder replaced by an empty one": both(shutil.rmtree, Path.mkdir),
    "folder replaced by a link to it": both(
        lambda run: run.rename(run.with_name("moved")), lambda run: run.symlink_to(run.with_name("moved"))
    ),
    "all files deleted": each("**/*", Path.unlink),
    "config deleted": lambda run: (run / "config.toml").unlink(),
    "config edited": _append("config.toml", b"# a remark\n"),
    "config written again": _again("config.toml"),
    "config a pipe": _instead("config.toml", os.mkfifo),
    "config a folder": _instead("config.toml", lambda path: path.mkdir()),
    "environment deleted": lambda run: (run / "environment.json").unlink(),
    "inputs deleted": lambda run: (run / "inputs.json").unlink(),
    "inputs edited": _append("inputs.json", b" "),
    "lock deleted": lambda run: (run / ".lock").unlink(),
    "lock written again": _again(".lock"),
    "lock a link": _instead(".lock", lambda path: path.symlink_to("config.toml")),
    "lock a link outside": _instead_of(".lock", "outside/rounds.jsonl"),
    "a client a link outside": _instead_of("clients/0", "outside/states"),
    "all states a link outside": _instead_of("clients", "outside"),
    "checkpoint a link outside": _instead_of("checkpoint", "outside"),
    "a summary that is a link outside": _instead_of("summary.json", "outside/rounds.jsonl"),
    **{
        f"{name}: {what}": change
        for name in ("rounds.jsonl", "clients.jsonl")
        for what, change in {
            "deleted": _on(name, Path.unlink),
            "emptied": _on(name, lambda path: os.truncate(path, 0)),
            "cut": _on(name, lambda path: os.truncate(path, 50)),
            "a line more": _append(name, b'{"round": 9}\n'),
            "edited in place": _edit(name),
            "written again": _again(name),
            "a link to /dev/null": _instead(name, lambda path: path.symlink_to(os.devnull)),
            "a link outside": _instead_of(name, "outside/rounds.jsonl"),
            "a pipe": _instead(name, os.mkfifo),
            "read only": _on(name, lambda path: path.chmod(0o400)),
        }.items()
    },
    "checkpoint deleted": lambda run: shutil.rmtree(run / "checkpoint"),
    "checkpoint a link": _into_link("checkpoint"),
    "checkpoint a file": _on("checkpoint", made_empty),
    "manifests deleted": each("checkpoint/*/manifest.json", Path.unlink),
    "servers cut": each("checkpoint/*/server.safetensors", lambda path: os.truncate(path, 9)),
    "states deleted": lambda run: shutil.rmtree(run / "clients"),
    "states a link": _into_link("clients"),
    "each state deleted": _each_state(lambda path: path.unlink()),
    "each state cut": _each_state(lambda path: os.truncate(path, 20)),
    "each state a link": _each_state(both(Path.unlink, lambda path: path.symlink_to(os.devnull))),
    "a folder in the way of states": _in_the_way,
    "a summary": lambda run: (run / "summary.json").write_text("{}"),
    "a summary that is a folder": lambda run: (run / "summary.json").mkdir(),
    "no right to read the folder": lambda run: run.chmod(0),
    "a file more": lambda run: (run / "notes.txt").write_text("mine"),
    "a file more among states": lambda run: (run / "clients/notes.txt").write_text("mine"),
}  # fmt: skip


def _changed(change: Change, when: int, folder: Path) -> Verdict:
    run = folder / "run"
    outside, before = _make_outside(folder)
    ran = command("run", *runs.flags(), "--out", run, first=lambda: runs.after_round(when, lambda: change(run)))
    if run.exists() and not run.is_symlink():
        run.chmod(0o755)
    verdict = first_fault(runs.fine(ran, run, runs.whole()), unharmed(outside, before, "while it ran"))
    if verdict.outcome != "held" or ran.code == 0:
        return verdict
    if "Written to" in ran.out:
        return Verdict("silent", "says that it is written")
    # Resuming what is there ends in the right result, or in one message.
    return first_fault(runs.resume(run), unharmed(outside, before, "when it was resumed"))


def _make_outside(folder: Path) -> tuple[Path, dict[str, bytes | None]]:
    """A folder beside the run whose files are called as those of a run, and what it holds."""
    outside = folder / "outside"
    states = (f"round-{number:05d}.safetensors" for number in range(1, LAST + 1))
    for name in ("rounds.jsonl", *(f"{parent}/{state}" for state in states for parent in ("states", "0"))):
        (outside / name).parent.mkdir(parents=True, exist_ok=True)
        (outside / name).write_text("precious")
    return outside, contents(outside)


def _late(change: Change, folder: Path) -> Verdict:
    """After the last checkpoint, before the summary."""
    run = folder / "run"
    outside, before = _make_outside(folder)

    def arrange() -> None:
        finish = RunFolder.check

        def check(folder: RunFolder, *, whole: bool = False) -> None:
            if whole:
                change(run)
            finish(folder, whole=whole)

        RunFolder.check = check  # type: ignore[method-assign, assignment]  # this process ends with the run

    ran = command("run", *runs.flags(), "--out", run, first=arrange)
    if run.exists() and not run.is_symlink():
        run.chmod(0o755)
    return first_fault(runs.fine(ran, run, runs.whole()), unharmed(outside, before, "at the end"))


def _moved_back(folder: Path) -> Verdict:
    """A folder that is moved back can be gone on with."""
    run = folder / "run"
    moved = run.with_name("moved")
    ran = command("run", *runs.flags(), "--out", run, first=lambda: runs.after_round(EARLY, lambda: run.rename(moved)))
    verdict = refused(ran, "was deleted or moved while the run was going on")
    if verdict.outcome != "held" or run.exists():
        return first_fault(verdict, Verdict("harmed", "something is where the folder was"))
    moved.rename(run)
    ran = command("resume", run)
    return fell(ran) or (runs.same(run, runs.whole()) if ran.code == 0 else Verdict("unclear", last_line(ran)))


def _resumed_meanwhile(folder: Path) -> Verdict:
    """A lock that is deleted lets another process in; of the two only one goes on."""
    run = copy_of(runs.stopped(), folder / "run")

    def let_in() -> None:
        if (folder / "let in").exists():
            return  # this is the second
        (folder / "let in").touch()
        (run / ".lock").unlink()
        second = start("resume", run)
        second.wait()

    ran = command("resume", run, first=lambda: runs.after_round(runs.ROUNDS, let_in))
    verdict = refused(ran)
    return first_fault(verdict, runs.same(run, runs.whole()))


def cases() -> list[Case]:
    """Those of this module."""
    group = "changed while it runs"
    early = [Case(group, name, functools.partial(_changed, change, EARLY)) for name, change in CHANGES.items()]
    late = [Case("changed at the end", name, functools.partial(_late, change)) for name, change in CHANGES.items()]
    return [
        *early,
        *late,
        Case(group, "folder moved and moved back", _moved_back),
        Case(group, "lock deleted, and resumed by another", _resumed_meanwhile),
    ]
