"""Links, pipes and devices among a run's files: nothing outside is read for ever, changed or deleted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import potluck
from attack import runs
from attack.files import NO_FILES
from attack.finished import finished, judge
from attack.judging import HELD, Case, Ran, Verdict, accepted, apart, command, first_fault, refused, unharmed
from attack.material import contents, copy_of, data

Make = Callable[[Path], object]


def _data_file(make: Make) -> Callable[[Path], Verdict]:
    def run(folder: Path) -> Verdict:
        make(folder / "x.npz")
        return refused(command("run", "standalone", "--data", folder / "x.npz", "--out", folder / "run"))

    return run


def _settings(make: Make) -> Callable[[Path], Verdict]:
    def run(folder: Path) -> Verdict:
        make(folder / "x.toml")
        return refused(command("run", "standalone", "--config", folder / "x.toml", "--out", folder / "run"))

    return run


def _linked_data(folder: Path) -> Verdict:
    """A link to a data set is as good as the data set."""
    (folder / "x.npz").symlink_to(data())
    return accepted(command("data", "check", folder / "x.npz"))


def _linked_run(folder: Path) -> Verdict:
    """A link to a run is as good as the run."""
    copy_of(finished(), folder / "there")
    (folder / "run").symlink_to("there")
    return judge(folder / "run", None)


def _looping(folder: Path) -> Verdict:
    """A folder that holds a run, and links to itself."""
    copy_of(finished(), folder / "runs/run")
    (folder / "runs/again").symlink_to("..")
    (folder / "runs/self").symlink_to("self")
    ran = command("report", folder / "runs", "--quick", "--out", folder / "page", timeout=300)
    return first_fault(accepted(ran), Verdict("silent", ran.out) if "the same run" in ran.out else HELD)


def _outside(name: str) -> Callable[[Path], Verdict]:
    """A page, its figures or events, where a link leads out of the run: what is there stays."""

    def run(folder: Path) -> Verdict:
        run, outside = copy_of(finished(), folder / "run"), folder / "precious"
        outside.mkdir()
        # Of the names that a report writes, and that an earlier page says it wrote.
        for kept in (*_FIGURES, "kept.txt"):
            (outside / kept).write_text("mine")
        if name == "report.html":
            (run / name).symlink_to(outside / "kept.txt")
        else:
            (run / name).symlink_to(outside)
            (run / "report.html").write_text("".join(f'<a href="figures/{kept}">' for kept in _FIGURES))
        before = contents(outside)
        ran = command("report", run, "--quick", timeout=300)
        verdict = accepted(ran) if ran.code == 0 else refused(ran)
        return first_fault(unharmed(outside, before, f"through the link {name}"), verdict)

    return run


_FIGURES = ("accuracy-rounds.png", "holiday.png", "clients.pdf")


def _page(make: Make, folder: Path) -> Verdict:
    """An earlier page that is none is written anew, and nothing beyond it."""
    run = copy_of(finished(), folder / "run")
    make(run / "report.html")
    others = [path for path in folder.iterdir() if path.is_file()]
    before = {path: path.read_bytes() for path in others}
    ran = command("report", run, "--quick", timeout=300)
    if before != {path: path.read_bytes() for path in others}:
        return Verdict("harmed", "a file outside changed")
    return accepted(ran) if ran.code == 0 else refused(ran)


def _events(folder: Path) -> Verdict:
    """Events of a run that goes on, where a link leads out of it."""
    run, outside = copy_of(runs.stopped(), folder / "run"), folder / "outside"
    outside.mkdir()
    (run / "tensorboard").symlink_to(outside)
    ran = command("resume", run, "--tensorboard")
    return first_fault(unharmed(outside, {}, "through the link tensorboard"), refused(ran, "tensorboard is a link"))


def _predictions(run: Path, into: Path) -> Ran:
    """What all clients predict of a run that is opened, in a file; the process in which that was done."""

    def look() -> None:
        federation = potluck.open_run(run)
        found = [federation.predict(client, client.train.x) for client in federation.clients]
        into.write_text(json.dumps([each.tolist() for each in found]))

    return apart(look)


def _alone(name: str, make: Make | None) -> Callable[[Path], Verdict]:
    """What only open_run needs: the others take the run, and it predicts as before or says why not."""

    def run(folder: Path) -> Verdict:
        run = copy_of(finished(), folder / "run")
        expected, found = folder / "expected.json", folder / "found.json"
        if (whole := accepted(_predictions(run, expected))).outcome != "held":
            return Verdict("broken", whole.text)
        path = next(iter(sorted(run.glob(name), reverse=True)))
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if make is not None:
            make(path)
        opened = _predictions(run, found)
        verdict = accepted(opened) if opened.code == 0 else refused(opened)
        if opened.code == 0 and found.read_text() != expected.read_text() and "DataWarning" not in opened.err:
            verdict = Verdict("silent", "opens, and predicts something else than the run came to")
        return first_fault(accepted(command("show", run)), verdict)

    return run


_LEFT = (
    *("checkpoint", "checkpoint/*", "checkpoint/*/manifest.json", "checkpoint/*/server.safetensors"),
    "clients/*/*.safetensors",
)


def cases() -> list[Case]:
    """Those of this module."""
    group = "links, pipes, devices"
    found = [
        Case(group, "a link to a data set", _linked_data),
        Case(group, "a link to a run", _linked_run),
        Case(group, "a link to where it is", _looping),
        Case(group, "a page that is a link", _outside("report.html")),
        Case(group, "figures that are a link", _outside("figures")),
        Case(group, "events that are a link", _events),
    ]
    for kind, make in NO_FILES.items():
        found.append(Case(group, f"{kind} as data", _data_file(make)))
        if kind != "a pipe":  # which waits for its other end, as a shell's <(...) is one
            found.append(Case(group, f"{kind} as settings", _settings(make)))
        found.append(Case(group, f"{kind} as report.html", partial(_page, make)))
        found += [Case(group, f"{kind} as {name}", _alone(name, make)) for name in _LEFT]
    found += [Case(group, f"nothing as {name}", _alone(name, None)) for name in _LEFT]
    return found
