"""The command line as a user meets it: what wins over what, what is written, what is printed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

import potluck as package
from potluck import algorithms, cli
from potluck.config import RunConfig
from potluck.data import augment, partitions
from potluck.report.terminal import result_table
from potluck.run.folder import RunFolder
from run import tiny


def test_flags_over_set_over_file_over_defaults(potluck: tiny.Command, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('seed = 1\nclients = 5\nrounds = 1\nepochs = 2\n[algorithm]\nname = "pfedes"\nmu = 0.2\n')
    flags = ("standalone", "--models", "cnn-5", "--partition", "iid", "--clients", "2", "--out", tmp_path / "run")
    # The settings of pFedES that are left in the file are none of Standalone's, and do not count; those of --set do.
    refused = potluck("run", *flags, "--config", file, "--set", "algorithm.mu=0.2")
    assert refused == (2, "", "potluck: unknown setting 'algorithm.mu': this algorithm has none of its own.\n")
    file.write_text('seed = 1\nclients = 5\nrounds = 1\nepochs = 2\nbatch_size = 9\n[algorithm]\nname = "pfedes"\n')
    sets = ("--set", "clients=4", "--set", "epochs=1", "--set", "algorithm.name=fedavg", "--set", "seed=7")
    assert potluck("run", *flags, "--config", file, *sets).code == 0
    written = tomllib.loads((tmp_path / "run/config.toml").read_text())
    assert written["algorithm"] == {"name": "standalone"}  # flag over --set and file
    assert written["clients"] == 2  # flag over --set and file
    assert (written["epochs"], written["seed"]) == (1, 7)  # --set over file
    assert (written["rounds"], written["batch_size"]) == (1, 9)  # file over default
    assert written["momentum"] == RunConfig.model_fields["momentum"].default


def test_config_is_complete(potluck: tiny.Command, tmp_path: Path) -> None:
    assert potluck("run", "pfedes", *tiny.ARGUMENTS, "--out", tmp_path / "run").code == 0
    written = tomllib.loads((tmp_path / "run/config.toml").read_text())
    # None, which TOML cannot say, is their default.
    left_out = {"data_dir", "split", "set_aside", "early_stop", "measure"}
    assert RunConfig.model_fields.keys() - written.keys() == left_out
    assert written["algorithm"]["mu"] == 0.1


@pytest.mark.parametrize("clip", ["none", "3.5"])
def test_config_given_back_gives_the_same_run(potluck: tiny.Command, tmp_path: Path, clip: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    extra = ("--rounds", "2", "--fraction", "0.7", "--seed", "3", "--set", f"clip_norm={clip}", "--set", "split=7:3")
    assert potluck("run", "pfedes", *tiny.ARGUMENTS, *extra, "--set", "algorithm.mu=0.3", "--out", one).code == 0
    assert potluck("run", "--config", one / "config.toml", "--out", two).code == 0
    assert tiny.rounds(one) == tiny.rounds(two)
    for name in ("config.toml", "clients.jsonl", "summary.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_same_command_same_bytes_other_seed_others(potluck: tiny.Command, tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        command = ("run", "fedavg", *tiny.ARGUMENTS, "--rounds", 2, "--seed", seed, "--out", tmp_path / name)
        assert potluck(*command).code == 0
    a, b, c = (
        [re.sub(rb'"seconds": [0-9.e-]+', b"", line) for line in (tmp_path / name / "rounds.jsonl").open("rb")]
        for name in "abc"
    )
    assert len(a) == 2
    assert a == b
    assert all(mine != other for mine, other in zip(a, c, strict=True))
    assert (tmp_path / "a/clients.jsonl").read_bytes() == (tmp_path / "b/clients.jsonl").read_bytes()
    assert (tmp_path / "a/clients.jsonl").read_bytes() != (tmp_path / "c/clients.jsonl").read_bytes()


def test_json_and_summary(potluck: tiny.Command, tmp_path: Path) -> None:
    ran = potluck("run", "pfedes", *tiny.ARGUMENTS, "--seed", 4, "--out", tmp_path / "run", "--json")
    assert ran.code == 0
    summary = json.loads(ran.out)  # and so nothing else is on standard output
    assert "pFedES" in ran.err  # what a person would watch
    assert summary == json.loads((tmp_path / "run/summary.json").read_text())
    assert summary == json.loads(potluck("show", tmp_path / "run", "--json").out)
    wanted = {"all_last", "all_best_validation", "participants_best", "client_accuracy", "rounds", "seed"}
    assert wanted | {"bytes_up", "bytes_down", "flops"} <= summary.keys()
    (record,) = tiny.rounds(tmp_path / "run")
    assert (summary["rounds"], summary["seed"], len(summary["client_accuracy"])) == (1, 4, 3)
    assert all(summary[name] == record[name] > 0 for name in ("bytes_up", "bytes_down", "flops", "server_flops"))
    assert summary["all_last"] == record["all"]["accuracy"]
    assert summary["all_last"] == pytest.approx(sum(summary["client_accuracy"]) / 3)
    several = json.loads(potluck("show", tmp_path / "run", tmp_path / "run/.", "--json").out)
    assert several == {str(tmp_path / "run"): summary}


def test_what_is_printed(potluck: tiny.Command, tmp_path: Path) -> None:
    # Brackets mean something to the library that prints, and a long path would be broken at the edge of the screen.
    run = tmp_path / "[bold] and [/red]" / ("long" * 30)
    ran = potluck("run", "pfedes", *tiny.ARGUMENTS, "--out", run)
    assert ran.code == 0
    assert not ran.err
    assert f"Written to {run}. See every client: potluck show '{run}'\n" in ran.out
    assert "1 round of 1 epoch, batches of 64" in ran.out
    assert "mu 0.1" in ran.out
    shown = potluck("show", run)
    assert shown.code == 0
    assert "Accuracy of each client, when all were last evaluated (%)\n" in shown.out
    assert not [line for line in ran.out.splitlines() if len(line) > 80 and str(run) not in line]


def test_a_warning_about_data_is_one_line(potluck: tiny.Command, tmp_path: Path) -> None:
    given = ("--partition", "pathological:9", "--clients", "10", "--out", tmp_path)
    ran = potluck("data", "show", tiny.NAME, *given)
    assert ran.code == 0
    assert re.fullmatch(
        r"potluck: warning: partition 'pathological:9' leaves [0-9]+ of 10 clients without a .*\n", ran.err
    )


def test_networks_at_random_with_weights_of_their_own(potluck: tiny.Command, tmp_path: Path) -> None:
    extra = ("--models", "mlp-8,mlp-9", "--set", "assignment=random", "--set", "initial_weights=per-client")
    ran = potluck("run", "pfedes", *tiny.ARGUMENTS, *extra, "--out", tmp_path / "run")
    assert ran.code == 0
    said = " ".join(ran.out.replace("\u2502", "").split())
    assert "models mlp-8,mlp-9 at random, each with initial weights of its own" in said
    written = tomllib.loads((tmp_path / "run/config.toml").read_text())
    assert (written["assignment"], written["initial_weights"]) == ("random", "per-client")


def test_table_of_results_fits_on_the_screen() -> None:
    summary = {"algorithm": {"name": "standalone"}, "all_last": 1.0, "all_best_validation": None} | {
        "participants_best": 0.98765, "bytes_up": 1023 << 10, "bytes_down": 1023 << 20, "flops": 987_654 * 10**12,
        "server_flops": 1_234_000,
    }  # fmt: skip
    printed, run = StringIO(), "runs/standalone-20250101-120000"
    Console(width=80, file=printed).print(result_table({run: summary}, {run: 1e5}))
    lines = printed.getvalue().splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    headings = next(line.split() for line in lines if line.startswith(" run "))[1:]
    assert [line.split()[0] for line in lines if line.partition(" ")[0] in headings] == headings
    row, below = re.findall("(.*Standalone.*)\n(.*)\n", printed.getvalue())[0]
    assert below.split()[-2:] == ["1.23", "M"]  # of the server
    assert re.split(r"  +", row.strip()) == [
        "Standalone",
        "100.00",
        "-",
        "98.77",
        "1023 KiB",
        "1023 MiB",
        "988 P",
        "27:46:40",
    ]


def test_run_goes_into_runs_by_default(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert potluck("run", "standalone", *tiny.ARGUMENTS, "--data-dir", "data").code == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"standalone-\d{8}-\d{6}", run.name)
    # A resume, or the same run again, may be asked for from another folder.
    assert tomllib.loads((run / "config.toml").read_text())["data_dir"] == str(tmp_path / "data")


def test_data_of_ones_own(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(0, 256, (60, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(60) % 3)
    monkeypatch.chdir(tmp_path)
    assert potluck("run", "standalone", *tiny.ARGUMENTS, "--data", "mine.npz", "--out", "one").code == 0
    assert tomllib.loads(Path("one/config.toml").read_text())["data"] == str(tmp_path / "mine.npz")
    for row, image in enumerate(x):
        (tmp_path / "mine" / str(row % 3)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "mine" / str(row % 3) / f"{row:02d}.png")
    assert potluck("run", "standalone", *tiny.ARGUMENTS, "--data", "mine/", "--out", "two").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert potluck("run", "--config", "../two/config.toml", "--out", "three").code == 0
    assert tiny.rounds(tmp_path / "two") == tiny.rounds(Path("three"))


def test_data_are_shown(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = potluck("data", "show", tiny.NAME, "--clients", "4", "--partition", "iid", "--seed", "3")
    assert (ran.code, ran.err) == (0, "")
    assert "fashion-mnist-10k: 120 images of 1x28x28 in 10 classes; 96 to train on" in ran.out
    assert "per client: 24 samples to train on" in ran.out
    assert ran.out.endswith("Drawn in fashion-mnist-10k-pictures: samples.png, classes.png, partition.png.\n")
    for name in ("samples", "classes", "partition"):
        with Image.open(tmp_path / f"fashion-mnist-10k-pictures/{name}.png") as picture:
            assert min(picture.size) > 100
    # What is shown is what a run does.
    shown = [int(line.split()[1]) for line in ran.out.splitlines() if re.fullmatch(r" +[0-3] .*", line)]
    run = ("standalone", *tiny.ARGUMENTS, "--clients", "4", "--seed", "3", "--out", tmp_path / "run")
    assert potluck("run", *run).code == 0
    federation = package.open_run(tmp_path / "run")
    assert shown == [len(client.train) for client in federation.clients]


def test_classes_are_shown_as_they_are_also_where_clients_get_a_part(
    potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("mine.npz", x=np.zeros((300, 4, 4), np.uint8), y=np.arange(300) % 3)
    # Four places for three classes: two of them have one holder, who gets half.
    ran = potluck("data", "show", "mine.npz", "--partition", "two-classes", "--clients", "2")
    assert "240 to train on, 30 to validate on, 30 to test on; no client gets 100 of them" in " ".join(ran.out.split())
    assert [line.split()[:4] for line in ran.out.splitlines() if re.match(r" [012] +80 ", line)] == [
        [str(label), "80", "10", "10"] for label in range(3)
    ]
    assert "per client: 80 samples to train on, 2 classes" in ran.out


def test_names_that_the_terminal_cannot_show(tmp_path: Path) -> None:
    names = np.array(["Große Äpfel", "猫", "a name that is too long for any table"])
    np.savez(tmp_path / "mine.npz", x=np.zeros((30, 4, 4), np.uint8), y=names[np.arange(30) % 3])
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    command = [sys.executable, "-m", "potluck", "data", "show", "mine.npz", "--clients", "2", "--partition", "iid"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"Gro?e ?pfel" in ran.stdout
    assert b"a name that is too long?" in ran.stdout
    assert b"for any table" not in ran.stdout


def test_data_that_cannot_be_shown(potluck: tiny.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, said in (
        (("mnits",), "did you mean 'mnist'"),
        ((tiny.NAME, "--partition", "dirichlet:x"), "needs a number from 0.001"),
        ((tiny.NAME, "--clients", "0"), "clients: 0 is not greater than or equal to 1"),
        ((tiny.NAME, "--split", "9"), "is neither 'release' nor"),
        (("cifar-10",), "was found in none of"),
    ):
        ran = potluck("data", "show", *arguments)
        assert ran.code == 2
        assert said in ran.err
        assert not list(tmp_path.glob("*-pictures"))
    (tmp_path / "file").touch()
    ran = potluck("data", "show", tiny.NAME, "--out", "file")
    assert ran.code == 2
    assert "cannot write file/samples.png: " in ran.err


def test_an_algorithm_may_be_given_by_its_name_alone(potluck: tiny.Command, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('algorithm = "standalone"\n')
    one, two = tmp_path / "one", tmp_path / "two"
    assert potluck("run", "--config", tmp_path / "settings.toml", *tiny.ARGUMENTS, "--out", one).code == 0
    assert potluck("run", "--set", "algorithm=Standalone", *tiny.ARGUMENTS, "--out", two).code == 0
    assert (one / "config.toml").read_text() == (two / "config.toml").read_text()


def test_show_of_a_run_under_way(potluck: tiny.Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert potluck("run", "standalone", *tiny.ARGUMENTS, "--out", run).code == 0
    finished = potluck("show", run)
    assert "not finished" not in finished.out
    (run / "summary.json").unlink()
    with (run / "rounds.jsonl").open("a") as file:
        file.write('{"round": 2, "coh')  # just being written
    shown = potluck("show", run)
    assert shown.code == 0
    assert f"{run} is not finished. Go on with it: potluck resume {run}\n" in shown.out
    assert shown.out.startswith(finished.out.split("Accuracy of each")[0])
    folder = RunFolder.open(run)
    folder.lock()
    assert f"{run} is not finished. It is running.\n" in potluck("show", run).out
    (run / "rounds.jsonl").write_text("")
    (run / "clients.jsonl").write_text("")
    assert potluck("show", run).err == f"potluck: {run} has no finished round to show yet. It is running.\n"
    folder.close()
    assert f"Go on with it: potluck resume {run}" in potluck("show", run).err


def test_help_tells_the_defaults(potluck: tiny.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    help = re.sub(r"\x1b\[[0-9;]*m", "", potluck("run", "--help").out)
    for name in ("data", "partition", "clients", "fraction", "rounds", "seed", "engine", "device"):
        said = re.search(rf"--{name} .*\[default: (.*)\]", help)
        assert said is not None, name
        assert said[1] == str(RunConfig.model_fields[name].default)


def test_help_names_every_choice(potluck: tiny.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    help = re.sub(r"\x1b\[[0-9;]*m", "", potluck("run", "--help").out)
    for key in RunConfig.model_fields.keys() - {"version"}:
        assert re.search(rf"\b{key}\b|--{key.replace('_', '-')}\b", help), key
    for name in (*partitions.names(), *augment.names(), *algorithms.names(), "release", "official", "8:1:1", "8:2"):
        assert re.search(rf"\b{name}\b", help), name
    shown = re.sub(r"\x1b\[[0-9;]*m", "", potluck("data", "show", "--help").out)
    for name in (*partitions.names(), "release", "official", "8:1:1", "8:2"):
        assert re.search(rf"\b{name}\b", shown), name
    for name in ("list", "fetch", "check", "show"):
        assert potluck("data", name, "--help").code == 0


def test_the_split_is_a_flag(potluck: tiny.Command, tmp_path: Path) -> None:
    command = ("run", "standalone", *tiny.ARGUMENTS, "--split", "1:1", "--out", tmp_path / "run")
    ran = potluck(*command)
    assert ran.code == 0
    assert "fashion-mnist-10k, split 1:1, iid" in ran.out
    assert tomllib.loads((tmp_path / "run/config.toml").read_text())["split"] == "1:1"
    assert {len(client.test) for client in package.open_run(tmp_path / "run").clients} == {19}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("data", "lst"), "list"),
        (("data", "fetch"), "name"),
        (("rnu",), "run"),
        (("run", "pfedes", "--round", "3"), "--rounds"),
        (("run", "pfedes", "--clients", "ten"), "--clients"),
        (("run", "pfedes", "fedavg"), "fedavg"),
        (("resume",), "path"),
        (("show",), "paths"),
    ],
)
def test_misspelt_commands(potluck: tiny.Command, arguments: tuple[str, ...], said: str) -> None:
    ran = potluck(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "--help" in ran.err


def test_version(potluck: tiny.Command) -> None:
    assert potluck("--version") == (0, f"{package.__version__}\n", "")


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = "import sys, potluck.cli; print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])"
    source = str(Path(package.__file__).parents[1])
    said = subprocess.check_output([sys.executable, "-c", code], text=True, env={"PYTHONPATH": source})
    assert said == "[]\n"


@pytest.mark.parametrize("chosen", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "9"}, {"KMP_BLOCKTIME": "9"}])
def test_threads_that_wait_sleep_unless_the_user_chose_otherwise(
    potluck: tiny.Command, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str]
) -> None:
    """Else several runs that start at once would hardly get anywhere."""
    environment = {"PATH": os.environ["PATH"], **chosen}
    monkeypatch.setattr(os, "environ", environment)
    assert potluck("--version").code == 0
    assert {name: environment[name] for name in environment.keys() - {"PATH"}} == (
        chosen or {"OMP_WAIT_POLICY": "passive"}
    )


def test_a_run_loads_nothing_that_only_reports_need(tmp_path: Path) -> None:
    command = ["run", "standalone", "--clients", "50", "--models", "cnn-5", "--rounds", "1", "--fraction", "0.02"]
    code = (
        f"import sys\nfrom potluck.cli import main\nsys.argv[1:] = {[*command, '--out', str(tmp_path / 'run')]!r}\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print([name for name in ('scipy', 'matplotlib', 'sklearn', 'jinja2.environment') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
