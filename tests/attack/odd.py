"""Odd places, neighbours and moments: what surrounds a run's folder, and several processes at once."""

from __future__ import annotations

import functools
import os
import resource
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

from attack import runs
from attack.damage import LAST
from attack.judging import HELD, Case, Ran, Verdict, accepted, command, fell, first_fault, refused, start
from attack.material import both, copy_of

Do = Callable[[Path], Verdict]


def _stopped(folder: Path, name: str = "run") -> Path:
    return copy_of(runs.stopped(), folder / name)


def _resumed(run: Path, *says: str) -> Verdict:
    """Resumed to the right result, and no file stays that is not a run's."""
    ran = command("resume", run)
    return fell(ran) or first_fault(accepted(ran, *says), runs.same(run, runs.whole()))


def _with(prepare: Callable[[Path], object], *, tidied: bool = False) -> Do:
    """Resume a run in whose folder something is prepared."""

    def do(folder: Path) -> Verdict:
        run = _stopped(folder)
        prepare(run)
        verdict = _resumed(run)
        return first_fault(verdict, runs.tidy(run, runs.whole()) if tidied else HELD)

    return do


def _sparse(path: Path, size: int) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def _refused_or_right(prepare: Callable[[Path], object]) -> Do:
    def do(folder: Path) -> Verdict:
        run = _stopped(folder)
        prepare(run)
        return runs.resume(run)

    return do


def _nested(run: Path) -> None:
    """Folders below each other, as many as can still be removed."""
    path = run / "clients"
    here = os.open(path, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def _many(run: Path) -> None:
    for number in range(100, 2100):
        (run / f"clients/{number}").mkdir()


def _half_files(run: Path) -> None:
    for name in (".summary.json", "clients/0/.round-00009.safetensors", f"checkpoint/round-{LAST:05d}/.manifest.json"):
        (run / f"{name}.1.part").touch()


def _socket(path: Path) -> None:
    short = path.parent
    before = Path.cwd()
    os.chdir(short)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(before)


# ---- places ------------------------------------------------------------------------------------------------------


def _named(name: str) -> Do:
    """A run in a folder of an odd name, killed, and resumed."""

    def do(folder: Path) -> Verdict:
        run = folder / name
        ran = command("run", *runs.flags(), "--out", run, first=lambda: runs.after_round(runs.ROUNDS, runs.end_at_once))
        if ran.code == 2:
            return refused(ran)
        if ran.code != 137:
            return Verdict("traceback", ran.err)
        return first_fault(_resumed(run), runs.tidy(run, runs.whole()))

    return do


def _through_a_link(folder: Path) -> Verdict:
    """The way to a run may lead over links."""
    run = _stopped(folder, "real")
    (folder / "latest").symlink_to("real")
    return first_fault(_resumed(folder / "latest"), runs.same(run, runs.whole()))


def _from_within(folder: Path) -> Verdict:
    run = _stopped(folder)
    ran = command("resume", ".", first=lambda: os.chdir(run))
    return first_fault(accepted(ran), runs.same(run, runs.whole()))


def _from_a_place_that_is_gone(folder: Path) -> Verdict:
    run, here = _stopped(folder), folder / "here"
    here.mkdir()
    ran = command("resume", run, first=lambda: both(os.chdir, Path.rmdir)(here))
    return runs.fine(ran, run, runs.whole())


def _limited(name: int, most: int) -> Do:
    def do(folder: Path) -> Verdict:
        run = _stopped(folder)
        ran = command("resume", run, first=lambda: resource.setrlimit(name, (most, most)))
        verdict = runs.fine(ran, run, runs.whole())
        # And afterwards without the limit.
        return verdict if ran.code == 0 or verdict != HELD else _resumed(run)

    return do


def _masked(folder: Path) -> Verdict:
    run = folder / "run"
    ran = command("run", *runs.flags(), "--out", run, first=lambda: os.umask(0o777))
    return runs.fine(ran, run, runs.whole())


def _at_the_end_of_time(folder: Path) -> Verdict:
    run = _stopped(folder)
    for path in (run, *run.rglob("*")):
        os.utime(path, (2**33, 2**33))
    return _resumed(run)


# ---- drafts beside a run -------------------------------------------------------------------------------------------


def _drafts(prepare: Callable[[Path], object], *, stays: bool) -> Do:
    """Begin a run where a draft, or what looks like one, lies beside it."""

    def do(folder: Path) -> Verdict:
        draft = folder / ".run.abcd1234.draft"
        prepare(draft)
        outside = folder.with_name(f"{folder.name}-outside")
        ran = command("run", *runs.flags(), "--out", folder / "run")
        shutil.rmtree(outside, ignore_errors=True)
        there = os.path.lexists(draft)
        verdict = first_fault(accepted(ran), runs.same(folder / "run", runs.whole()))
        return first_fault(verdict, HELD if there == stays else Verdict("harmed", f"draft there: {there}"))

    return do


def _filled(*names: str) -> Callable[[Path], None]:
    def prepare(draft: Path) -> None:
        draft.mkdir()
        for name in names:
            (draft / name).write_text("x")

    return prepare


def _live_draft(folder: Path) -> Verdict:
    """A run that waits while it makes its folder, and another of the same name meanwhile."""
    import fcntl

    draft = folder / ".run.abcd1234.draft"
    _filled(".lock", "config.toml")(draft)
    with (draft / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ran = command("run", *runs.flags(), "--out", folder / "run")
    kept = (draft / "config.toml").exists()
    return first_fault(accepted(ran), HELD if kept else Verdict("harmed", "a draft in use was removed"))


# ---- several processes ---------------------------------------------------------------------------------------------


def _together(count: int, *, run: bool) -> Do:
    """Several processes at once: one does it, the others are refused."""

    def do(folder: Path) -> Verdict:
        path = folder / "run" if run else _stopped(folder)
        arguments = ("run", *runs.flags(), "--out", path) if run else ("resume", path)
        ran = [process.wait() for process in [start(*arguments) for _ in range(count)]]
        verdicts = [fell(each) or (HELD if each.code == 0 else refused(each)) for each in ran]
        winners = sum(each.code == 0 for each in ran)
        one = HELD if winners == 1 else Verdict("silent", f"{winners} of {count} did it")
        return first_fault(*verdicts, one, runs.same(path, runs.whole()), runs.tidy(path, runs.whole()))

    return do


def _while_it_runs(arguments: Callable[[Path], tuple[object, ...]]) -> Do:
    """A command on a run that is under way: the run is not disturbed."""

    def do(folder: Path) -> Verdict:
        run = folder / "run"
        ran = command(
            "run", *runs.flags(), "--out", run,
            first=lambda: runs.after_round(2, lambda: _told(folder, arguments(run))),
        )  # fmt: skip
        told = (folder / "told").read_text()
        verdict = HELD if told in ("0", "2") else Verdict("traceback", told)
        return first_fault(accepted(ran), verdict, runs.same(run, runs.whole()))

    return do


def _told(folder: Path, arguments: tuple[object, ...]) -> None:
    ran = command(*arguments)
    worse = fell(ran)
    (folder / "told").write_text(worse.text if worse else str(ran.code))


def _killed_in_resume(folder: Path) -> Verdict:
    """Killed four times in a row as it resumes, later each time."""
    run = _stopped(folder)
    for number in range(4):
        start("resume", run).wait(0.3 * (number + 1))
    return runs.same(run, runs.whole()) if (run / "summary.json").exists() else _resumed(run)


def _twice(folder: Path) -> Verdict:
    """Resumed, its summary deleted, and resumed again."""
    run = _stopped(folder)
    verdict = _resumed(run)
    (run / "summary.json").unlink()
    return first_fault(verdict, _resumed(run), runs.tidy(run, runs.whole()))


def _finished(folder: Path) -> Verdict:
    """Resuming a finished run is refused and changes nothing."""
    run = copy_of(runs.whole(), folder / "run")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    verdict = refused(command("resume", run), "is finished")
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    return first_fault(verdict, HELD if before == after else Verdict("harmed", "it changed"))


def _half_copied(folder: Path) -> Verdict:
    """A copy that lacks every second file."""
    run = _stopped(folder)
    for path in sorted(path for path in run.rglob("*") if path.is_file())[::2]:
        path.unlink()
    return runs.resume(run)


def _hard_links(folder: Path) -> Verdict:
    """A copy by hard links: the first run is not changed by resuming the second."""
    run = _stopped(folder)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    second = folder / "second"
    shutil.copytree(run, second, copy_function=os.link)
    ran: Ran = command("resume", second)
    verdict = runs.fine(ran, second, runs.whole())
    changed = [path.name for path in before if path.name != ".lock" and path.read_bytes() != before[path]]
    return first_fault(verdict, Verdict("harmed", f"the first run: {changed}") if changed else HELD)


ODD: dict[str, Do] = {
    "a checkpoint of round 999999999": _with(lambda run: (run / "checkpoint/round-999999999").mkdir(), tidied=True),
    "a checkpoint of too many digits": _with(
        lambda run: shutil.copytree(run / f"checkpoint/round-{LAST:05d}", run / f"checkpoint/round-{LAST:09d}")
    ),
    "a checkpoint to come, copied": _with(
        lambda run: shutil.copytree(run / f"checkpoint/round-{LAST:05d}", run / f"checkpoint/round-{LAST + 5:05d}"),
        tidied=True,
    ),
    "a checkpoint that is a file": _refused_or_right(lambda run: (run / "checkpoint/round-00009").touch()),
    "states to come": _with(lambda run: (run / "clients/0/round-00077.safetensors").touch(), tidied=True),
    "a client to come": _with(lambda run: (run / "clients/77").mkdir(), tidied=True),
    "half files of a killed process": _with(_half_files, tidied=True),
    "a half file that is a folder": _with(lambda run: (run / ".summary.json.1.part").mkdir()),
    "a half file that is a link": _with(lambda run: (run / ".summary.json.1.part").symlink_to("config.toml")),
    "a user's file among states": _with(lambda run: (run / "clients/0/notes.txt").touch()),
    "a socket among states": _refused_or_right(lambda run: _socket(run / "clients/0/s")),
    "a socket as a lock": _refused_or_right(lambda run: both(Path.unlink, _socket)(run / ".lock")),
    "records of a gigabyte of zeros": _with(lambda run: _sparse(run / "rounds.jsonl", 1 << 30)),
    "a manifest of a gigabyte": _refused_or_right(
        lambda run: _sparse(run / f"checkpoint/round-{LAST:05d}/manifest.json", 1 << 30)
    ),
    "a config of a gigabyte": _refused_or_right(lambda run: _sparse(run / "config.toml", 1 << 30)),
    "a server of a gigabyte": _refused_or_right(
        lambda run: _sparse(run / f"checkpoint/round-{LAST:05d}/server.safetensors", 1 << 30)
    ),
    "600 folders below each other": _refused_or_right(_nested),
    "2,000 files more": _with(_many, tidied=True),
    "a record after the checkpoint that is noise": _with(
        lambda run: (run / "rounds.jsonl").write_bytes((run / "rounds.jsonl").read_bytes() + bytes(range(256)))
    ),
    "a name with spaces": _named("a run of mine"),
    "a name with a line feed": _named("a\nb"),
    "a name with brackets": _named("[red]{x}*?"),
    "a name that is hidden": _named(".run"),
    "a name of 255 characters": _named("n" * 255),
    "a name of a draft": _named(".run.abcd1234.draft"),
    "a name beyond ASCII": _named("läuft-ünd-läuft"),
    "through a link": _through_a_link,
    "from within": _from_within,
    "from a folder that is gone": _from_a_place_that_is_gone,
    "files of 3 kB at most": _limited(resource.RLIMIT_FSIZE, 3000),
    "files of 100 bytes at most": _limited(resource.RLIMIT_FSIZE, 100),
    "30 open files": _limited(resource.RLIMIT_NOFILE, 30),
    "a mask that forbids all": _masked,
    "files of the year 2242": _at_the_end_of_time,
    "a stale draft": _drafts(_filled(".lock", "config.toml", ".inputs.json.7.part"), stays=False),
    "an empty draft": _drafts(_filled(), stays=False),
    "a draft with a file of a user": _drafts(_filled(".lock", "thesis.tex"), stays=True),
    "a draft without a lock": _drafts(_filled("config.toml"), stays=True),
    "a draft that is a link": _drafts(lambda draft: draft.symlink_to("/"), stays=True),
    "a draft whose lock is a link": _drafts(
        both(Path.mkdir, lambda draft: (draft / ".lock").symlink_to("/etc/passwd")), stays=True
    ),
    "a draft that is a file": _drafts(lambda draft: draft.touch(), stays=True),
    "a draft in use": _live_draft,
    "four runs at once": _together(4, run=True),
    "four resumes at once": _together(4, run=False),
    "resumed while it runs": _while_it_runs(lambda run: ("resume", run)),
    "begun again while it runs": _while_it_runs(lambda run: ("run", *runs.flags(), "--out", run)),
    "shown while it runs": _while_it_runs(lambda run: ("show", run)),
    "killed in each resume": _killed_in_resume,
    "resumed twice": _twice,
    "resumed when it is finished": _finished,
    "half copied": _half_copied,
    "copied by hard links": _hard_links,
}


def cases() -> list[Case]:
    """Those of this module."""
    return [Case("odd places and moments", name, functools.partial(_try, do)) for name, do in ODD.items()]


def _try(do: Do, folder: Path) -> Verdict:
    inner = folder / "place"
    inner.mkdir()
    return do(inner)
