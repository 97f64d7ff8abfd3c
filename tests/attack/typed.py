"""What a person may type wrongly: every setting and every flag with values that cannot be, names that are misspelt."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo

from attack.judging import HELD, Case, Ran, Verdict, accepted, command, fell, first_fault, refused
from attack.material import data, once
from potluck.algorithms import find
from potluck.algorithms import known as methods
from potluck.cli import app
from potluck.config import RunConfig

SHORT = ("--clients", 4, "--rounds", 1, "--models", "mlp-8", "--partition", "iid", "--split", "8:1:1")
"""A run of a second or two, for what is accepted after all."""


def _tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def _leaves_nothing(folder: Path, before: list[str]) -> Verdict:
    made = sorted(set(_tree(folder)) - set(before))
    return Verdict("harmed", f"left {', '.join(made[:3])}") if made else HELD


def _refusal(arguments: tuple[Any, ...], says: tuple[str, ...], folder: Path) -> Verdict:
    before = _tree(folder)
    ran = command(*(_in(folder, each) for each in arguments), timeout=30)
    return first_fault(refused(ran, *says), _leaves_nothing(folder, before))


def _in(folder: Path, argument: object) -> object:
    """An argument that stands for a path of the case, or for made material, as that."""
    if isinstance(argument, str) and argument.startswith("@"):
        return {"@data": data, "@run": finished}.get(argument, lambda: folder / argument[1:])()
    return argument


def _usage(arguments: tuple[Any, ...], says: tuple[str, ...], folder: Path) -> Verdict:
    """What does not have the form of a command at all: the message is that of the parser, with how to get help."""
    before = _tree(folder)
    ran = command(*(_in(folder, each) for each in arguments), timeout=30)
    return first_fault(_misused(ran, says), _leaves_nothing(folder, before))


def _misused(ran: Ran, says: tuple[str, ...]) -> Verdict:
    if verdict := fell(ran):
        return verdict
    if ran.code == 0:
        return Verdict("silent", ran.out[-200:])
    text = " ".join(ran.err.replace("│", " ").split())
    missing = [word for word in says if word not in text]
    return Verdict("unclear", f"{missing[0]!r} is not in: {text[-300:]}") if missing else HELD


def _acceptance(arguments: tuple[Any, ...], says: tuple[str, ...], folder: Path) -> Verdict:
    return accepted(command(*(_in(folder, each) for each in arguments)), *says)


def finished() -> Path:
    """A run that is over."""

    def make(path: Path) -> None:
        assert command("run", "standalone", "--data", data(), *SHORT, "--out", path).code == 0

    return once("finished", make)


# ---- settings -------------------------------------------------------------------------------------------------------

_NOWHERE: dict[str, str] = {
    "text": "'nonsense'", "a list": "[1, 2, 3]", "a table": "{a = 1}", "a date": "2026-01-01",
}  # fmt: skip
_WHOLE = {
    "a fraction": "1.5", "true": "true", "NaN": "nan", "infinity": "inf", "nothing": "", "a number in words": "ten",
    "-1": "-1", "below -2**63": "-99999999999999999999", "10**30": "1" + "0" * 30, "5,000 digits": "9" * 5000,
    "hexadecimal text": "0xzz",
}  # fmt: skip
_REAL = {
    "true": "true", "NaN": "nan", "infinity": "inf", "minus infinity": "-inf", "nothing": "", "-1": "-1",
    "-1e300": "-1e300", "beyond every float": "1e999", "a comma for a point": "0,1", "a percentage": "10%",
}  # fmt: skip
_WORD = {
    "a number": "3", "a fraction": "0.5", "true": "true", "NaN": "nan", "nothing": "",
    "another script": "\u0434\u043e\u043c",
    "a control character": '"\\u001b[31m"', "a null character": '"a\\u0000b"', "10,000 letters": "x" * 10_000,
}  # fmt: skip
_SWITCH = {"a number": "3", "a fraction": "0.5", "NaN": "nan", "nothing": "", "a word": "perhaps"}
_FREE = ("data_dir",)
"""Text that may be any."""


def _values(field: FieldInfo, name: str) -> dict[str, str]:
    """Values that cannot be, by the type of a setting."""
    kinds = {each for each in (field.annotation, *typing.get_args(field.annotation)) if isinstance(each, type)}
    if int in kinds:
        return _NOWHERE | _WHOLE
    if bool in kinds:
        return _NOWHERE | _SWITCH
    if name == "betas":
        return {
            "text": "'nonsense'", "one": "[0.9]", "three": "[0.1, 0.2, 0.3]", "beyond 1": "[0.9, 1.0]",
            "negative": "[-0.1, 0.9]", "true": "[true, 0.9]", "NaN": "[nan, 0.9]", "words": "['a', 'b']",
        }  # fmt: skip
    if float in kinds:
        return _NOWHERE | _REAL
    if name in _FREE:
        kept = ("a number", "a fraction", "true", "a null character")
        return {what: value for what, value in (_NOWHERE | _WORD).items() if what in (*kept, "a list", "a table")}
    return _NOWHERE | _WORD


def _settings() -> Iterator[Case]:
    for name, field in RunConfig.model_fields.items():
        if name in ("algorithm", "clip_norm", "version"):
            continue
        for what, value in _values(field, name).items():
            arguments: tuple[Any, ...] = ("run", "pfedes", "--data", "@data", *SHORT, "--out", "@out")
            if f"--{name}" in arguments:
                at = arguments.index(f"--{name}")
                arguments = (*arguments[:at], *arguments[at + 2 :])
            # The place of a data set is said in full, and a word alone may be the name of one.
            says = (
                () if name in ("data", "engine", "device", "models", "split", "partition", "augmentation") else (name,)
            )
            yield _case("settings", f"{name} = {what}", _refusal, (*arguments, "--set", f"{name}={value}"), says)
    for what, value in {"0": "0", "true": "true", "minus infinity": "-inf", "NaN": "nan", "a word": "off"}.items():
        arguments = ("run", "pfedes", "--data", "@data", *SHORT, "--out", "@out", "--set", f"clip_norm={value}")
        yield _case("settings", f"clip_norm = {what}", _refusal, arguments, ("clip_norm",))
    for value in ("0", "2", "true", "'1'", "1.5"):
        arguments = ("run", "pfedes", "--data", "@data", *SHORT, "--out", "@out", "--set", f"version={value}")
        yield _case("settings", f"version = {value}", _refusal, arguments, ("version",))
    for method in methods():
        for name, field in find(method).model_fields.items():
            for what, value in _values(field, name).items():
                extra = ("--set", "public=50") if method == "kt-pfl" else ()
                arguments = ("run", method, "--data", "@data", *SHORT, "--out", "@out", *extra)
                says = () if name == "small_model" else (f"algorithm.{name}",)
                yield _case(
                    "settings of methods", f"{method}: {name} = {what}", _refusal,
                    (*arguments, "--set", f"algorithm.{name}={value}"), says,
                )  # fmt: skip


def _case(
    group: str, name: str, judge: Callable[[Any, Any, Path], Verdict], arguments: tuple[Any, ...], says: tuple[str, ...]
) -> Case:
    return Case(group, name, functools.partial(judge, arguments, says))


# ---- flags ----------------------------------------------------------------------------------------------------------

_NEEDED: dict[str, tuple[Any, ...]] = {
    "run": ("pfedes",), "resume": ("@nowhere",), "show": ("@nowhere",), "compare": ("fedavg", "--out", "@compared"),
    "tune": ("fedproto", "--out", "@tuned"), "report": ("@nowhere",), "algorithms": (), "models": (), "data list": (),
    "data fetch": ("mnist",), "data check": ("mnist",), "data show": ("fashion-mnist-10k", "--out", "@drawn"),
}  # fmt: skip
"""What each command cannot do without."""
_TYPED: tuple[tuple[tuple[str, ...], dict[str, str]], ...] = (
    (
        ("--clients", "--rounds", "--seed", "--trials", "--jobs", "--classes", "--held"),
        {"text": "x", "a fraction": "1.5", "nothing": "", "NaN": "nan", "two numbers": "1 2"},
    ),
    (("--fraction", "--target"), {"text": "x", "nothing": "", "a comma for a point": "0,5"}),
)
"""Flags that take a number, and what is none."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command and its words."""

    def walk(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
        for name, each in group.commands.items():
            words = f"{prefix}{name}"
            if hasattr(each, "commands"):
                yield from walk(f"{words} ", each)
            else:
                yield words, each

    return walk("", typer.main.get_command(app))


def _flags() -> Iterator[Case]:
    for words, each in commands():
        needed = _NEEDED[words]
        for parameter in each.params:
            flag = parameter.opts[-1]
            if not flag.startswith("--"):
                continue
            if parameter.is_flag:
                yield _case("flags", f"{words} {flag}=3", _usage, (*words.split(), *needed, f"{flag}=3"), (flag,))
                continue
            yield _case("flags", f"{words} {flag} without a value", _usage, (*words.split(), *needed, flag), (flag,))
            for what, value in next((bad for flags, bad in _TYPED if flag in flags), {}).items():
                arguments = (*words.split(), *needed, flag, value)
                yield _case("flags", f"{words} {flag} {what}", _usage, arguments, (flag,))
        yield _case("flags", f"{words} --nonsense", _usage, (*words.split(), *needed, "--nonsense"), ("--nonsense",))
        yield _case("flags", f"{words} -Z", _usage, (*words.split(), *needed, "-Z"), ("-Z",))
        if all(parameter.nargs != -1 for parameter in each.params):
            more = (*words.split(), *needed, *["more"] * 3)
            yield _case("flags", f"{words} with arguments too many", _usage, more, ("more",))


_WORDS: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    # misspelt, or none at all
    "a misspelt method": (("run", "pfedse"), ("did you mean 'pfedes'",)),
    "a method in another script": (("run", "пфедес"), ("unknown algorithm",)),
    "a method called nothing": (("run", ""), ("algorithm",)),
    "no method": (("run",), ("which algorithm?",)),
    "a method that is a path": (("run", "./method.py"), ("unknown algorithm",)),
    "a misspelt model": (("run", "pfedes", "--models", "cnn-9"), ("unknown model",)),
    "a model without a width": (("run", "pfedes", "--models", "mlp-"), ("unknown model",)),
    "a model too wide": (("run", "pfedes", "--models", "mlp-99999999"), ("no width",)),
    "a model of width 0": (("run", "pfedes", "--models", "mlp-0"), ("no width",)),
    "a model with many digits": (("run", "pfedes", "--models", "mlp-" + "9" * 5000), ("no width",)),
    "a range of models downwards": (("run", "pfedes", "--models", "cnn-5..1"), ("upwards",)),
    "a range of models without end": (("run", "pfedes", "--models", "cnn-1..99999999999"), ("cnn-",)),
    "an empty list of models": (("run", "pfedes", "--models", ","), ("name is missing",)),
    "a misspelt data set": (("run", "pfedes", "--data", "mnits"), ("unknown data set",)),
    "a file that is not there": (("run", "pfedes", "--data", "@none.npz"), ("none.npz",)),
    "a folder that is not there": (("run", "pfedes", "--data", "@none/"), ("none",)),
    "a misspelt partition": (("run", "pfedes", "--partition", "patological:2"), ("pathological",)),
    "a partition without a number": (("run", "pfedes", "--partition", "pathological"), ("pathological",)),
    "a partition of 0 classes": (("run", "pfedes", "--partition", "pathological:0"), ("pathological",)),
    "a partition of many classes": (("run", "pfedes", "--partition", "pathological:" + "9" * 5000), ("pathological",)),
    "a partition of -1": (("run", "pfedes", "--partition", "dirichlet:-1"), ("dirichlet",)),
    "a partition of NaN": (("run", "pfedes", "--partition", "dirichlet:nan"), ("dirichlet",)),
    "a partition of infinity": (("run", "pfedes", "--partition", "dirichlet:inf"), ("dirichlet",)),
    "a partition of 1e-300": (("run", "pfedes", "--partition", "dirichlet:1e-300"), ("dirichlet",)),
    "a partition with a minimum of -1": (("run", "pfedes", "--partition", "dirichlet:1:-1"), ("dirichlet",)),
    "a partition that ends in a colon": (("run", "pfedes", "--partition", "iid:"), ("colon",)),
    "a partition with more than it takes": (("run", "pfedes", "--partition", "iid:3"), ("iid",)),
    "a balanced partition of nothing": (("run", "pfedes", "--partition", "balanced-dirichlet"), ("balanced",)),
    "a misspelt split": (("run", "pfedes", "--split", "releese"), ("split",)),
    "a split of nothing": (("run", "pfedes", "--split", "0:0"), ("split",)),
    "a split without test samples": (("run", "pfedes", "--split", "8:0"), ("split",)),
    "a split of -1": (("run", "pfedes", "--split", "8:-1"), ("split",)),
    "a split of four": (("run", "pfedes", "--split", "1:1:1:1"), ("split",)),
    "a split of fractions": (("run", "pfedes", "--split", "0.8:0.2"), ("split",)),
    "a split of many digits": (("run", "pfedes", "--split", "9" * 5000 + ":1"), ("split",)),
    "a misspelt engine": (("run", "pfedes", "--engine", "stackd"), ("did you mean 'stacked'",)),
    "a device of another kind": (("run", "pfedes", "--device", "tpu"), ("unknown device",)),
    "the meta device": (("run", "pfedes", "--device", "meta"), ("unknown device",)),
    "a device that is not there": (("run", "pfedes", "--device", "cuda:7"), ("is not there",)),
    "a device of -1": (("run", "pfedes", "--device", "cuda:-1"), ("device",)),
    "a device of nothing": (("run", "pfedes", "--device", ""), ("device",)),
    "a device and nothing": (("run", "pfedes", "--device", "cpu,"), ("device",)),
    "two kinds of devices": (("run", "pfedes", "--device", "cpu,cuda"), ("device",)),
    # numbers in flags
    "0 clients": (("run", "pfedes", "--clients", 0), ("clients",)),
    "-1 clients": (("run", "pfedes", "--clients", -1), ("clients",)),
    "10**9 clients": (("run", "pfedes", "--clients", 10**9), ("clients",)),
    "10**30 clients": (("run", "pfedes", "--clients", 10**30), ("clients",)),
    "0 rounds": (("run", "pfedes", "--rounds", 0), ("rounds",)),
    "10**26 rounds": (("run", "pfedes", "--rounds", 10**26), ("rounds",)),
    "a fraction of 0": (("run", "pfedes", "--fraction", 0), ("fraction",)),
    "a fraction of NaN": (("run", "pfedes", "--fraction", "nan"), ("fraction",)),
    "a fraction of infinity": (("run", "pfedes", "--fraction", "inf"), ("fraction",)),
    "a fraction of -0.5": (("run", "pfedes", "--fraction", "-0.5"), ("fraction",)),
    "a fraction of nobody": (("run", "pfedes", "--fraction", "0.001"), ("fraction",)),
    "a seed of -1": (("run", "pfedes", "--seed", -1), ("seed",)),
    "a seed of 2**63": (("run", "pfedes", "--seed", 2**63), ("seed",)),
    "an extractor of 10**9 channels": (
        ("run", "pfedes", "--set", "algorithm.extractor_width=1000000000"), ("algorithm.extractor_width",),
    ),
    "10**20 epochs": (
        ("run", "pfedes", "--set", "algorithm.extractor_epochs=99999999999999999999"), ("algorithm.extractor_epochs",),
    ),
    # settings by other names
    "lambda misspelt": (("run", "fedproto", "--set", "lamda=1"), ("did you mean 'algorithm.pull'",)),
    "lambda": (("run", "fedtgp", "--set", "lambda=1"), ("did you mean 'algorithm.pull'",)),
    "tau": (("run", "fedtgp", "--set", "margn=1"), ("did you mean 'algorithm.margin'",)),
    "a setting of another method": (("run", "fedavg", "--set", "algorithm.mu=1"), ("algorithm.mu",)),
    "a setting without its table": (("run", "pfedes", "--set", "mu=0.1"), ("algorithm.mu",)),
    "a table that is none": (("run", "pfedes", "--set", "training.epochs=1"), ("training.epochs",)),
    "a setting called nothing": (("run", "pfedes", "--set", "=1"), ("key=value",)),
    "a setting without a value": (("run", "pfedes", "--set", "epochs"), ("key=value",)),
    "an algorithm that is a number": (("run", "--set", "algorithm=3"), ("algorithm",)),
    "an algorithm that is a list": (("run", "--set", "algorithm=['fd']"), ("algorithm",)),
    "an algorithm named by a number": (("run", "--set", "algorithm.name=3"), ("algorithm",)),
    "arrays without end": (("run", "pfedes", "--set", "epochs=" + "[" * 20_000), ("epochs",)),
    # files of settings
    "a file of settings that is not there": (("run", "pfedes", "--config", "@none.toml"), ("none.toml",)),
    "a folder of settings": (("run", "pfedes", "--config", "@."), ("cannot read",)),
    "a device as settings": (("run", "pfedes", "--config", "/dev/null/x"), ("cannot read",)),
    # folders
    "a run below a file": (("run", "standalone", "--data", "@data", *SHORT, "--out", "/dev/null/x"), ("/dev/null",)),
    "a run over a run": (("run", "standalone", "--data", "@data", *SHORT, "--out", "@run"), ("exists already",)),
    "a run in no folder": (("run", "standalone", "--data", "@data", *SHORT, "--out", ""), ("exists already",)),
    "a name too long": (("run", "standalone", "--data", "@data", *SHORT, "--out", "n" * 300), ("too long",)),
    "no run to resume": (("resume", "@nowhere"), ("no run",)),
    "a finished run to resume": (("resume", "@run"), ("is finished",)),
    "no run to show": (("show", "@nowhere"), ("no run",)),
    "a run and none to show": (("show", "@run", "@nowhere"), ("no run",)),
    "no run to report": (("report", "@nowhere"), ("nowhere",)),
    "no runs to compare": (("compare", "--out", "@nowhere"), ("no run",)),
    # comparisons and searches
    "a misspelt method to compare": (("compare", "fedagv", "--out", "@x"), ("did you mean 'fedavg'",)),
    "rounds without methods": (("compare", "--rounds", 3, "--out", "@x"), ("no method is named",)),
    "settings without methods": (("compare", "--set", "epochs=3", "--out", "@x"), ("no method is named",)),
    "a file without methods": (("compare", "--config", "@x.toml", "--out", "@x"), ("no method is named",)),
    "a misspelt baseline": (("compare", "fedavg", "--baseline", "standalon", "--out", "@x"), ("baseline",)),
    "a misspelt protocol": (("compare", "fedavg", "--protocol", "last", "--out", "@x"), ("protocol",)),
    "a misspelt test": (("compare", "fedavg", "--test", "chi2", "--out", "@x"), ("test",)),
    "a target of NaN": (("compare", "fedavg", "--target", "nan", "--out", "@x"), ("target",)),
    "a target of 80": (("compare", "fedavg", "--target", "80", "--out", "@x"), ("target",)),
    "seeds of words": (("compare", "fedavg", "--seeds", "a,b", "--out", "@x"), ("--seeds",)),
    "seeds of nothing": (("compare", "fedavg", "--seeds", ",", "--out", "@x"), ("--seeds",)),
    "seeds without end": (("compare", "fedavg", "--seeds", "0..999999999", "--out", "@x"), ("--seeds",)),
    "seeds downwards": (("compare", "fedavg", "--seeds", "4..0", "--out", "@x"), ("--seeds",)),
    "a grid without values": (("compare", "fedavg", "--grid", "epochs=", "--out", "@x"), ("--grid",)),
    "a grid of an unknown setting": (("compare", "fedavg", "--grid", "epoch=1,2", "--out", "@x"), ("epochs",)),
    "a grid of words": (("compare", "fedavg", "--grid", "epochs=a,b", "--out", "@x"), ("epochs",)),
    "a grid given twice": (
        ("compare", "fedavg", "--grid", "epochs=1", "--grid", "epochs=2", "--out", "@x"), ("given twice",),
    ),
    "part 0": (("compare", "fedavg", "--part", "0/3", "--out", "@x"), ("--part",)),
    "part 4 of 3": (("compare", "fedavg", "--part", "4/3", "--out", "@x"), ("--part",)),
    "a misspelt method to tune": (("tune", "fedprotto", "--out", "@x"), ("did you mean 'fedproto'",)),
    "a space of words": (("tune", "fedproto", "--space", "algorithm.pull=a..b", "--out", "@x"), ("--space",)),
    "a space downwards": (("tune", "fedproto", "--space", "algorithm.pull=2..1", "--out", "@x"), ("--space",)),
    "a space of nothing": (("tune", "fedproto", "--space", "algorithm.pull=", "--out", "@x"), ("--space",)),
    "a space of an unknown setting": (("tune", "fedproto", "--space", "algorithm.pul=1..2", "--out", "@x"), ("pull",)),
    # tables
    "a shape of words": (("models", "--shape", "a,b"), ("shape",)),
    "a shape of 0": (("models", "--shape", "0,32,32"), ("shape",)),
    "a shape without end": (("models", "--shape", "999999999,999999999,3"), ("shape",)),
    "a misspelt model to list": (("models", "cnn-77"), ("unknown model",)),
    "a misspelt method to explain": (("algorithms", "pfedez"), ("did you mean 'pfedes'",)),
    "a misspelt data set to fetch": (("data", "fetch", "mnits"), ("unknown data set",)),
    "a misspelt data set to check": (("data", "check", "mnits"), ("unknown data set",)),
    "a misspelt data set to show": (("data", "show", "mnits"), ("unknown data set",)),
    "0 clients to show": (("data", "show", "@data", "--clients", 0, "--out", "@x"), ("clients",)),
    "a seed of -1 to show": (("data", "show", "@data", "--seed", -1, "--out", "@x"), ("seed",)),
}  # fmt: skip
_FORMS: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "a misspelt command": (("rnu", "pfedes"), ("rnu",)),
    "a misspelt command of data": (("data", "shwo"), ("shwo",)),
    "a command in capitals": (("RUN", "pfedes"), ("RUN",)),
    "two methods to run": (("run", "pfedes", "fedavg"), ("fedavg",)),
    "nothing to resume": (("resume",), ("path",)),
    "nothing to show": (("show",), ("paths",)),
    "nothing to tune": (("tune",), ("methods",)),
    "nothing to fetch": (("data", "fetch"), ("name",)),
    "0 trials": (("tune", "fedproto", "--trials", 0), ("--trials",)),
    "0 runs side by side": (("compare", "fedavg", "--jobs", 0), ("--jobs",)),
    "0 classes": (("models", "--classes", 0), ("--classes",)),
    "10**9 classes": (("algorithms", "--classes", 10**9), ("--classes",)),
}
_TAKEN: dict[str, tuple[tuple[Any, ...], tuple[str, ...]]] = {
    "a method in capitals": (("run", "StandAlone", "--data", "@data", *SHORT, "--out", "@x"), ("Written to",)),
    "a model in capitals": (("models", "CNN-1"), ("cnn-1",)),
    "digits as text": (
        ("run", "standalone", "--data", "@data", *SHORT, "--set", "epochs='1'", "--out", "@x"), ("Written to",),
    ),
    "a whole number with a point": (
        ("run", "standalone", "--data", "@data", *SHORT, "--set", "epochs=1.0", "--out", "@x"), ("Written to",),
    ),
    "a folder of data that is not needed": (
        ("run", "standalone", "--data", "@data", *SHORT, "--data-dir", "/none", "--out", "@x"), ("Written to",),
    ),
    "a flag against a setting": (
        ("run", "standalone", "--data", "@data", *SHORT, "--set", "rounds=9", "--out", "@x"), ("Written to",),
    ),
    "clipping by the word none": (
        ("run", "standalone", "--data", "@data", *SHORT, "--set", "clip_norm=none", "--out", "@x"), ("Written to",),
    ),
}  # fmt: skip


def _contents() -> Iterator[Case]:
    """Files of settings that hold what cannot be."""
    contents: dict[str, tuple[bytes, str]] = {
        "no TOML": (b"epochs: 3\n", "not valid TOML"),
        "JSON": (b'{"epochs": 3}', "not valid TOML"),
        "a key twice": (b"epochs = 1\nepochs = 2", "not valid TOML"),
        "bytes of a picture": (b"\x89PNG\r\n\x1a\n\x00", "settings.toml"),
        "UTF-16": ("epochs = 1".encode("utf-16"), "settings.toml"),
        "a null character": (b"data = 'a\x00b'", "settings.toml"),
        "brackets without end": (b"x = " + b"[" * 200_000, "settings.toml"),
        "tables without end": (b"[" + b"a." * 20_000 + b"b]", "a"),
        "a list of methods": (b"methods = ['fd', 'fml']", "unknown setting 'methods'"),
        "an algorithm that is a list": (b"algorithm = ['fd']", "algorithm"),
        "an unknown setting": (b"epoch = 3", "did you mean 'epochs'"),
        "an unknown setting of the method": (b"[algorithm]\nmuu = 3", "did you mean 'algorithm.mu'"),
        "a table for a number": (b"[epochs]\na = 3", "epochs"),
        "infinity": (b"learning_rate = inf", "learning_rate"),
        "a time": (b"seed = 07:32:00", "seed"),
        "another version": (b"version = 9", "version"),
    }

    def run(content: bytes, says: str, folder: Path) -> Verdict:
        (folder / "settings.toml").write_bytes(content)
        arguments = ("run", "pfedes", "--data", "@data", *SHORT, "--config", "@settings.toml", "--out", "@x")
        return _refusal(arguments, (says,), folder)

    for what, (content, says) in contents.items():
        yield Case("files of settings", what, functools.partial(run, content, says))


def cases() -> list[Case]:
    """Those of this module."""
    found = [*_settings(), *_flags(), *_contents()]
    found += [_case("words and numbers", what, _refusal, *case) for what, case in _WORDS.items()]
    found += [_case("forms of commands", what, _usage, *case) for what, case in _FORMS.items()]
    found += [_case("taken on purpose", what, _acceptance, *case) for what, case in _TAKEN.items()]
    return found
