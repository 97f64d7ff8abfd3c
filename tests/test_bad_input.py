"""Bad input of every kind ends in one clear message that says what to do, exit code 2, and nothing half-written."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from potluck.data.sources import cifar10
from potluck.data.sources.published import File
from run import tiny

NEAREST = "unknown {} '{}': did you mean '{}'? Known: "


@pytest.fixture
def refused(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Give a command that must be refused; its one message. Nothing may be left of it on the disk."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, printed: bool = False) -> str:
        before = tiny.tree(tmp_path)
        ran = potluck(*arguments)
        assert ran.code == 2
        assert printed or not ran.out
        assert ran.err.startswith("potluck: ")
        assert ran.err.count("\n") == 1
        assert ran.err.endswith("\n")
        assert tiny.tree(tmp_path) == before
        return ran.err

    return run


BAD_SETTINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "no algorithm": ((), "which algorithm? Give its name: fd, fedapen, fedavg, "),
    "algorithm": (("pfedse",), NEAREST.format("algorithm", "pfedse", "pfedes")),
    "algorithm by --set": (("--set", "algorithm.name=fedagv"), NEAREST.format("algorithm", "fedagv", "fedavg")),
    "algorithm of a wrong type": (("--set", "algorithm=3"), "algorithm: 3 is neither the name of an algorithm nor"),
    "data set": (("pfedes", "--data", "cifar10"), NEAREST.format("data set", "cifar10", "cifar-10")),
    "model": (("pfedes", "--models", "cnn-6"), "unknown model 'cnn-6': did you mean 'cnn-"),
    "range of models": (("pfedes", "--models", "cnn-5..1"), "a range goes upwards, as in 'cnn-1..5'"),
    "no model": (("pfedes", "--models", "cnn-1,,cnn-2"), "a name is missing"),
    "width": (("pfedes", "--models", "resnet-18@0"), "model 'resnet-18@0': '0' is no width"),
    "width of none": (("pfedes", "--models", "fedavg-cnn@9"), "fedavg-cnn has no width to choose; these have: "),
    "range of widths": (("pfedes", "--models", "mlp-8..9"), "the numbers are widths, which have no range"),
    "assignment": (("pfedes", "--set", "assignment=by_id"), "assignment: 'by_id' is not 'by-id' or 'random'"),
    "weights": (("pfedes", "--set", "initial_weights=own"), "'own' is not 'per-architecture' or 'per-client'"),
    "unlike models at random": (
        ("fedavg", "--models", "cnn-4..5", "--set", "assignment=random"),
        "FedAvg needs one architecture on every client",
    ),
    "partition": (("pfedes", "--partition", "patological:2"), "'patological': did you mean 'pathological'?"),
    "engine": (("pfedes", "--engine", "lop"), NEAREST.format("engine", "lop", "loop")),
    "augmentation": (("pfedes", "--set", "augmentation=relase"), NEAREST.format("augmentation", "relase", "release")),
    "device": (("pfedes", "--device", "gpu"), "unknown device 'gpu': give cpu, cuda, cuda:1 or auto."),
    "device that is not there": (("pfedes", "--device", "cuda:99"), "device 'cuda:99' is not there"),
    "split": (("pfedes", "--set", "split=8:1:x"), "split '8:1:x' is neither 'release' nor 'official' nor a"),
    "optimizer": (("pfedes", "--set", "optimizer=sdg"), "optimizer: 'sdg' is not 'sgd' or 'adam'"),
    "schedule": (("pfedes", "--set", "schedule=cosin"), "schedule: 'cosin' is none of constant, cosine, "),
    "key": (("pfedes", "--set", "epoch=3"), NEAREST.format("setting", "epoch", "epochs")),
    "key of a table": (("pfedes", "--set", "training.epochs=3"), "unknown setting 'training.epochs'"),
    "key of the algorithm": (("pfedes", "--set", "algorithm.muu=0.1"), "'algorithm.muu': did you mean 'algorithm.mu'?"),
    "key of another algorithm": (("standalone", "--set", "algorithm.mu=0.1"), "unknown setting 'algorithm.mu'"),
    "key that is the algorithm's": (("pfedes", "--set", "mu=0.1"), "'mu': did you mean 'algorithm.mu'?"),
    "mu too large": (("pfedes", "--set", "algorithm.mu=0.51"), "algorithm.mu: 0.51 is not less than or equal to 0.5"),
    "mu zero": (("pfedes", "--set", "algorithm.mu=0"), "algorithm.mu: 0 is not greater than 0"),
    "mu a word": (("pfedes", "--set", "algorithm.mu=small"), "algorithm.mu: 'small' is not a valid number"),
    "a word for a number": (("pfedes", "--set", "epochs=many"), "epochs: 'many' is not a valid integer"),
    "a fraction for a whole": (("pfedes", "--set", "epochs=1.5"), "epochs: 1.5 is not a valid integer"),
    "a number for a word": (("pfedes", "--set", "data=3"), "data: 3 is not a valid string"),
    "true for a number": (("pfedes", "--set", "epochs=true"), "epochs: true is not a valid value"),
    "true for an own number": (("pfedes", "--set", "algorithm.mu=true"), "algorithm.mu: true is not a valid value"),
    "too few of a list": (("pfedes", "--set", "betas=[0.9]"), "betas.1 is missing"),
    "infinity": (("pfedes", "--set", "clip_norm=inf"), "clip_norm: inf is not a finite number"),
    "infinity of the algorithm": (
        ("pfedes", "--set", "algorithm.extractor_learning_rate=inf"),
        "algorithm.extractor_learning_rate: inf is not a finite number",
    ),
    "nan": (("pfedes", "--set", "learning_rate=nan"), "learning_rate: nan is not "),
    "not UTF-8": (("pfedes", "--set", "data_dir=\udcff"), r"data_dir: "),
    "no value": (("pfedes", "--set", "epochs"), "--set 'epochs' is not of the form key=value"),
    "a negative seed": (("pfedes", "--seed", "-1"), "seed: -1 is not greater than or equal to 0"),
    "no clients": (("pfedes", "--clients", "0"), "clients: 0 is not greater than or equal to 1"),
    "no rounds": (("pfedes", "--rounds", "0"), "rounds: 0 is not greater than or equal to 1"),
    "fraction of nobody": (("pfedes", "--fraction", "0.05"), "0.05 of 10 clients selects nobody: give 1/10 or more"),
    "fraction too large": (("pfedes", "--fraction", "1.5"), "fraction: 1.5 is not less than or equal to 1"),
    "classes per client": (("pfedes", "--partition", "pathological:11"), "there are 10: choose from 1 to 10"),
    "clients and samples": (("pfedes", "--clients", "500"), "500 clients cannot share 96 training samples"),
    "unlike models": (("fedavg", "--models", "cnn-1..2"), "FedAvg needs one architecture on every client"),
    "data by name only": (("pfedes", "--data", "given"), "unknown data set 'given'"),
    "version": (("pfedes", "--set", "version=2"), "version: 2 is not 1"),
    "true in a pair": (("pfedes", "--set", "betas=[true, 0.9]"), "betas: true is not a valid value"),
    "the name that papers use": (("fedproto", "--set", "lamda=1"), "did you mean 'algorithm.pull' (weight of the"),
    "a misspelt setting of the method": (("fedtgp", "--set", "margn=1"), "did you mean 'algorithm.margin'?"),
    "rounds without end": (("pfedes", "--rounds", "9" * 26), "is not less than or equal to 1000000"),
    "epochs without end": (("pfedes", "--set", f"algorithm.extractor_epochs={'9' * 20}"), "or equal to 1000000"),
    "thousands of digits": (("pfedes", "--set", f"epochs={'9' * 5000}"), "exceeded maximum size"),
    "an extractor too wide": (("pfedes", "--set", "algorithm.extractor_width=1000000000"), "or equal to 4096"),
    "a null character": (("pfedes", "--set", 'data_dir="a\\u0000b"'), "holds a null character"),
    "an empty split": (("pfedes", "--split", ""), "split '' is neither"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_settings(refused: Callable[..., str], case: str) -> None:
    arguments, said = BAD_SETTINGS[case]
    assert said in refused("run", *arguments)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("epoch = 3", NEAREST.format("setting", "epoch", "epochs")),
        ("[algorithm]\nmuu = 0.1", "'algorithm.muu': did you mean 'algorithm.mu'?"),
        ("[algorithm]\nmu = 0.6", "algorithm.mu: 0.6 is not less than or equal to 0.5"),
        ("[trainig]\nepochs = 3", "unknown setting 'trainig'"),
        ("algorithm = 7", "algorithm: 7 is neither"),
        ("epochs = [1, 2]", "epochs: [1, 2] is not a valid integer"),
        ("epochs = 3\nepochs = 4", "settings.toml is not valid TOML: "),
        ("epochs = ", "settings.toml is not valid TOML: "),
        ("epochs: 3\n", "settings.toml is not valid TOML: "),
        ("x = " + "[" * 5000, "settings.toml is not valid TOML: "),
        (b"data = '\xff'", "cannot read settings.toml: "),
        (None, "cannot read settings.toml: No such file or directory"),
    ],
)
def test_settings_in_a_file(refused: Callable[..., str], content: str | bytes | None, said: str) -> None:
    if content is not None:
        Path("settings.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in refused("run", "pfedes", "--config", "settings.toml")


def test_a_comparison_without_methods(refused: Callable[..., str]) -> None:
    Path("settings.toml").write_text("rounds = 3")
    for flags in (("--config", "settings.toml"), ("--rounds", 3), ("--set", "epochs=2"), ("--seeds", "0,1")):
        assert f"{flags[0]} says how to run, and no method is named" in refused("compare", *flags)


def test_short_memory(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr("potluck.experiment.make_federation", short)
    assert "there is not enough memory: " in refused("run", "pfedes")


def test_settings_in_a_folder(refused: Callable[..., str]) -> None:
    Path("settings.toml").mkdir()
    assert "cannot read settings.toml: Is a directory" in refused("run", "pfedes", "--config", "settings.toml")
    assert "/dev/zero is no file of settings: " in refused("run", "pfedes", "--config", "/dev/zero")


# ---- data ---------------------------------------------------------------------------------------------------------


def fake_cifar(data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of empty images, which the reader is told to be the published ones."""
    folder = data / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    published = File(2 * 3073, "c6f7b1a3da1b6d0f1d7d6a6d7d5a0f5c")
    form = replace(cifar10.BINARY, files=dict.fromkeys(cifar10.BINARY.files, published))
    monkeypatch.setattr(cifar10, "BINARY", form)
    for name in form.files:
        (folder / name).write_bytes(bytes(2 * 3073))
    return folder


CIFAR = ("run", "pfedes", "--data", "cifar-10", "--data-dir", "data")
UNPACK = "Unpack cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html"


def test_data_nowhere(refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused(*CIFAR)
    assert f"cifar-10-batches-bin/ was found in none of: {tmp_path / 'data'}, " in message
    assert UNPACK in message


def test_data_altered_truncated_missing(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fake_cifar(tmp_path / "data", monkeypatch)
    file = folder / "data_batch_1.bin"
    message = refused(*CIFAR)
    assert f"{file} has the right size but not the published content: it was altered. {UNPACK}" in message
    file.write_bytes(file.read_bytes()[:-1])
    assert f"{file} is truncated: 6,145 bytes instead of 6,146. {UNPACK}" in refused(*CIFAR)
    file.unlink()
    assert f"{file} is missing. {UNPACK}" in refused(*CIFAR)
    file.mkdir()
    assert f"{file} cannot be read (Is a directory). {UNPACK}" in refused(*CIFAR)


def test_data_in_a_file(refused: Callable[..., str]) -> None:
    Path("data").write_text("")
    assert "data is a file, not a folder" in refused(*CIFAR)


def test_data_that_may_not_be_read(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions do not bind root, who may be running this.
    scandir = os.scandir

    def forbidden(path: os.PathLike[str]) -> object:
        if os.fspath(path).endswith("cifar-10-batches-bin"):
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", forbidden)
    assert "(Permission denied): make the folder readable, or name another." in refused(*CIFAR)


# ---- the run's folder ---------------------------------------------------------------------------------------------


def test_folder_that_exists(refused: Callable[..., str]) -> None:
    Path("run").mkdir()
    command = ("run", "pfedes", *tiny.ARGUMENTS, "--out", "run")
    assert refused(*command).endswith("run exists already. Give another --out.\n")
    Path("run/config.toml").write_text("seed = 0")
    assert "run exists already. Give another --out, or go on with it: potluck resume run" in refused(*command)
    Path("run/config.toml").unlink()
    Path("run").rmdir()
    Path("run").write_text("precious")
    assert "run exists already." in refused(*command)
    Path("run").unlink()
    Path("run").symlink_to("nowhere")
    assert "run exists already." in refused(*command)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("file/run", "cannot make a run folder in file: it is a file. Give another --out."),
        ("file/deep/run", "cannot make a run folder in file/deep: Not a directory. Give another --out."),
        ("/proc/no/run", "cannot make a run folder in /proc/no: "),
        ("/proc/run", "cannot make a run folder in /proc: "),
        ("n" * 300, "cannot make a run folder in .: File name too long. Give another --out."),
    ],
)
def test_folder_that_cannot_be_made(refused: Callable[..., str], out: str, said: str) -> None:
    Path("file").write_text("")
    message = refused("run", "standalone", *tiny.ARGUMENTS, "--out", out, printed=True)
    assert said in message
    assert "kept" not in message


def test_folder_that_cannot_be_looked_at(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Path.stat

    def forbidden(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "config.toml":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", forbidden)
    assert "cannot look into run: Permission denied." in refused("resume", "run")
    assert "cannot look into run: Permission denied." in refused("show", "run")


def test_folder_that_cannot_be_written(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    message = refused("run", "standalone", *tiny.ARGUMENTS, "--out", "run", printed=True)
    assert "cannot make the run folder run: " in message
    assert "No space left on device" in message


# ---- in the middle of a run ---------------------------------------------------------------------------------------

DIVERGING = ("--rounds", 4, "--set", "batch_size=8", "--set", "clip_norm=none", "--set", "schedule=step:2:1e30")


@pytest.mark.parametrize(("name", "setting"), [("fedgh", "header_learning_rate"), ("fedtgp", "server_learning_rate")])
def test_a_server_whose_numbers_are_not_finite(name: str, setting: str, potluck: tiny.Command, tmp_path: Path) -> None:
    ran = potluck("run", name, *tiny.ARGUMENTS, "--set", f"algorithm.{setting}=1e300", "--out", tmp_path / "run")
    assert ran.code == 2
    assert "holds numbers that are not finite after round 1. Try smaller learning rates" in ran.err


def test_numbers_that_are_not_finite(potluck: tiny.Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ran = potluck("run", "standalone", *tiny.ARGUMENTS, *DIVERGING, "--out", run)
    assert ran.code == 2
    assert ran.err.startswith("potluck: training of client 0 in round 3 gave numbers that are not finite (losses: ")
    assert ran.err.endswith(
        f"Try a smaller learning_rate or clip_norm. The rounds before are kept: potluck show {run}\n"
    )
    assert ran.err.count("\n") == 1
    assert [record["round"] for record in tiny.rounds(run)] == [1, 2]
    assert [path.name for path in (run / "checkpoint").iterdir()] == ["round-00002"]
    shown = potluck("show", run)
    assert shown.code == 0
    assert "is not finished" in shown.out
    before = tiny.tree(run)
    again = potluck("resume", run)
    assert (again.code, again.err) == (2, ran.err)
    assert tiny.tree(run) == before


@pytest.mark.parametrize("name", ["pfedes", "fedkd", "fedgh"])
def test_numbers_that_are_never_finite(name: str, potluck: tiny.Command, tmp_path: Path) -> None:
    extra = ("--set", "learning_rate=1e30", "--set", "clip_norm=none", "--set", "batch_size=8")
    ran = potluck("run", name, *tiny.ARGUMENTS, *extra, "--out", tmp_path / "run")
    assert ran.code == 2
    assert "training of client 0 in round 1 gave numbers that are not finite" in ran.err
    assert "kept" not in ran.err  # nothing is
    shown = potluck("show", tmp_path / "run")
    assert (shown.code, shown.out) == (2, "")
    assert "has no finished round to show yet" in shown.err


# ---- looking at a run ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is finished."""
    path = tmp_path_factory.mktemp("made") / "run"
    with pytest.MonkeyPatch.context() as patch:
        assert tiny.call(patch, "run", "standalone", *tiny.ARGUMENTS, "--out", path) == 0
    return path


def _text(name: str, content: str) -> Callable[[Path], object]:
    return lambda run: (run / name).write_text(content)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_text("summary.json", "{"), "run/summary.json is damaged: "),
        (_text("summary.json", "[]"), "run/summary.json is damaged"),
        (_text("summary.json", "{}"), "run/summary.json is damaged"),
        (_text("rounds.jsonl", "{}\n"), "line 1 of run/rounds.jsonl is damaged"),
        (_text("rounds.jsonl", "7\n"), "line 1 of run/rounds.jsonl is damaged"),
        (_text("rounds.jsonl", '{"round": 1}\n'), "line 1 of run/rounds.jsonl is damaged: it has no 'cohort'"),
        (_text("clients.jsonl", "}\n"), "line 1 of run/clients.jsonl is damaged"),
        (shutil.rmtree, "no run in run: there is no config.toml in it."),
        (lambda run: (run / "config.toml").unlink(), "no run in run: there is no config.toml in it."),
    ],
)
def test_show_of_a_damaged_run(
    refused: Callable[..., str], made: Path, damage: Callable[[Path], object], said: str
) -> None:
    shutil.copytree(made, "run")
    damage(Path("run"))
    assert said in refused("show", "run")


def test_nothing_to_show(refused: Callable[..., str]) -> None:
    assert "no run in nowhere: there is no config.toml in it." in refused("show", "nowhere")


def test_what_nobody_foresaw(refused: Callable[..., str], made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanished(path: Path) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr("potluck.results.read_run", vanished)
    assert f"No such file or directory: '{made}'" in refused("show", made)


# ---- as processes -------------------------------------------------------------------------------------------------


def test_processes_end_as_this_one_does(made: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    commands = {
        ("run", "pfedse", "--out", out): "potluck: unknown algorithm 'pfedse': did you mean 'pfedes'? ",
        ("run", "standalone", "--json", "--set", "epochs=0", "--out", out): "potluck: epochs: 0 is not greater ",
        ("resume", made): f"potluck: {made} is finished. See it: potluck show {made}",
    }
    started = [tiny.start(*command, real=True) for command in commands]
    for process, said in zip(started, commands.values(), strict=True):
        ran = tiny.finish(process)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(said)
        assert ran.err.count("\n") == 1
    assert not tiny.tree(tmp_path)
