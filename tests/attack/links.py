"""Links, pipes and devices among a run's files: nothing outside is read for ever, changed or deleted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from attack.files import NO_FILES
from attack.finished import finished, judge
from attack.judging import HELD, Case, Verdict, accepted, apart, command, first_fault, refused
from attack.material import copy_of, data

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
    """A page, or its figures, where a link leads out of the run: what is there stays."""

    def run(folder: Path) -> Verdict:
        run, outside = copy_of(finished(), folder / "run"), folder / "precious"
        outside.mkdir()
        (outside / "kept.txt").write_text("mine")
        (run / name).symlink_to(outside if name == "figures" else outside / "kept.txt")
        ran = command("report", run, "--quick")
        if (outside / "kept.txt").read_text() != "mine":
            return Verdict("harmed", f"{name} was written through a link")
        return accepted(ran) if ran.code == 0 else refused(ran)

    return run


def _alone(name: str, make: Make | None) -> Callable[[Path], Verdict]:
    """What only open_run needs: the others take the run."""

    def run(folder: Path) -> Verdict:
        run = copy_of(finished(), folder / "run")
        path = next(iter(sorted(run.glob(name), reverse=True)))
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if make is not None:
            make(path)

        def look() -> None:
            import potluck

            federation = potluck.open_run(run)
            for client in range(5):
                federation.predict(client, federation.clients[client].train.x[:2])

        opened = apart(look)
        return first_fault(accepted(command("show", run)), accepted(opened) if opened.code == 0 else refused(opened))

    return run


_LEFT = ("checkpoint/*", "checkpoint/*/manifest.json", "checkpoint/*/server.safetensors", "clients/*/*.safetensors")


def cases() -> list[Case]:
    """Those of this module."""
    group = "links, pipes, devices"
    found = [
        Case(group, "a link to a data set", _linked_data),
        Case(group, "a link to a run", _linked_run),
        Case(group, "a link to where it is", _looping),
        Case(group, "a page that is a link", _outside("report.html")),
        Case(group, "figures that are a link", _outside("figures")),
    ]
    for kind, make in NO_FILES.items():
        found.append(Case(group, f"{kind} as data", _data_file(make)))
        if kind != "a pipe":  # which waits for its other end, as a shell's <(...) is one
            found.append(Case(group, f"{kind} as settings", _settings(make)))
        found += [Case(group, f"{kind} as {name}", _alone(name, make)) for name in _LEFT]
    found += [Case(group, f"nothing as {name}", _alone(name, None)) for name in _LEFT]
    return found
