"""Finished runs with damaged files: ``show``, ``show --json``, ``report`` and ``open_run`` take the same runs."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import potluck
from attack import content, files
from attack.judging import HELD, Case, Ran, Verdict, accepted, apart, command, fell, first_fault, refused
from attack.material import copy_of, data, once

Damage = Callable[[Path], object]


def finished() -> Path:
    """A finished run of five clients, of whom three take part in a round, with validation samples."""

    def make(path: Path) -> None:
        ran = command(
            *("run", "fedproto", "--data", data(), "--split", "6:2:2", "--partition", "pathological:2"),
            *("--clients", "5", "--fraction", "0.6", "--rounds", "4", "--models", "mlp-8", "--device", "cpu"),
            *("--set", "checkpoint_every=1", "--set", "evaluate_every=2", "--out", path),
        )
        assert ran.code == 0, ran.err

    return once("finished", make)


def judge(run: Path, says: str | None, *, opens: str | None = None) -> Verdict:
    """Held if everything that reads the run does the same.

    Args:
        run: The run.
        says: What stands in the message, where it is to be refused; None if it is to be taken.
        opens: What ``open_run`` says if it alone needs what is damaged.
    """

    def look() -> None:
        federation = potluck.open_run(run)
        federation.predict(0, federation.clients[0].train.x[:2])

    shown, as_json = command("show", run), command("show", run, "--json")
    reported = command("report", run, "--quick", "--out", run.parent / "page", timeout=300)
    opened = apart(look)
    verdicts = [partly(ran, says) for ran in (shown, as_json, reported)] + [partly(opened, opens or says)]
    if says is None:
        verdicts += [strict(as_json.out), accuracies(shown)]
    return first_fault(*verdicts, *map(clean, (shown, as_json, reported, opened)))


def partly(ran: Ran, says: str | None) -> Verdict:
    """Held if it was taken or refused as it should be."""
    return accepted(ran) if says is None else refused(ran, says)


def strict(text: str) -> Verdict:
    """Held if this is JSON by the letter."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return Verdict("silent", f"--json printed what is no JSON: {error}")
    return HELD


def accuracies(ran: Ran) -> Verdict:
    """Held if every percentage on the screen is one."""
    shown = re.findall(r"(?<![\w.])-?\d+\.\d\d(?!\d)(?! [KMGT]iB)", ran.out)
    beyond = [text for text in shown if not 0 <= float(text) <= 100]
    return Verdict("silent", f"shows {beyond[0]} %") if beyond else HELD


def clean(ran: Ran) -> Verdict:
    """Held if nothing was printed that a terminal would obey, and the message is not longer than a screen."""
    if found := fell(ran):
        return found
    odd = {letter for letter in ran.out + ran.err if unicodedata.category(letter) in ("Cc", "Cf") and letter != "\n"}
    if odd:
        return Verdict("harmed", f"printed {sorted(odd)!a}")
    return Verdict("unclear", f"a message of {len(ran.err)} letters") if len(ran.err) > 2000 else HELD


def _configuration(damage: Damage, folder: Path) -> Verdict:
    """What cannot be read is no run to compare, and none that a comparison takes for one of its own."""
    run = copy_of(finished(), folder / "run")
    damage(run)
    verdict = judge(run, "config.toml")
    compared = command("compare", "--out", folder, "--no-report")
    # Refused for its baseline, which is looked at when the runs that are there have been.
    placed = command("compare", "fedproto", "--data", data(), "--clients", 5, "--baseline", "x", "--out", folder)
    verdicts = [refused(compared, "config.toml"), refused(placed, "baseline")]
    return first_fault(verdict, *verdicts, clean(compared), clean(placed))


def _case(group: str, name: str, damage: Damage, says: str | None, opens: str | None = None) -> Case:
    def run(folder: Path) -> Verdict:
        run = copy_of(finished(), folder / "run")
        damage(run)
        return judge(run, says, opens=opens)

    return Case(group, name, run)


# ---- what is damaged ------------------------------------------------------------------------------------------------


def _written(name: str, content: str | bytes) -> Damage:
    def damage(run: Path) -> None:
        (run / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return damage


def _replaced(name: str, old: str, new: str) -> Damage:
    return lambda run: content.replaced(run / name, old, new)


def _summaries() -> Iterator[tuple[str, Damage]]:
    values: dict[str, dict[str, Any]] = {
        "text as all_last": {"all_last": "0.5"},
        "text of no number as all_last": {"all_last": "best"},
        "a list as all_last": {"all_last": [0.5]},
        "none as all_last": {"all_last": None},
        "NaN as all_last": {"all_last": float("nan")},
        "infinity as all_last": {"all_last": float("inf")},
        "minus infinity as participants_best": {"participants_best": float("-inf")},
        "accuracy 7": {"all_last": 7},
        "accuracy -1": {"all_last": -1.0},
        "a better accuracy": {"all_last": 0.99},
        "a better round": {"all_best_validation_round": 3},
        "text in client_accuracy": {"client_accuracy": ["a", "b", "c", "d", "e"]},
        "NaN in client_accuracy": {"client_accuracy": [float("nan")] * 5},
        "7 in client_accuracy": {"client_accuracy": [7, 0, 0, 0, 0]},
        "clients too few": {"client_accuracy": [0.5]},
        "clients too many": {"client_accuracy": [0.5] * 500},
        "text as client_accuracy": {"client_accuracy": "none"},
        "none as client_accuracy": {"client_accuracy": None},
        "text as algorithm": {"algorithm": "fedproto"},
        "none as algorithm": {"algorithm": None},
        "an algorithm without a name": {"algorithm": {}},
        "another algorithm": {"algorithm": {"name": "fedavg"}},
        "flops none": {"flops": None},
        "flops text": {"flops": "many"},
        "flops -1": {"flops": -1},
        "bytes_up negative": {"bytes_up": -5},
        "bytes_down 1e300": {"bytes_down": 1e300},
        "bytes_up true": {"bytes_up": True},
        "rounds 999": {"rounds": 999},
        "rounds none": {"rounds": None},
        "another seed": {"seed": 1},
        "seed false": {"seed": False},
        "another data set": {"data": "cifar-10"},
    }
    for name, value in values.items():
        yield name, partial(content.in_summary, **value)
    for key in ("all_last", "client_accuracy", "flops", "algorithm", "rounds"):
        yield f"no {key}", partial(content.without, key)
    yield from files.texts("summary.json", "{}", "[]", "null", "0.5")
    yield "a name changed", _replaced("summary.json", '"all_last":', '"all_lost":')


def _records() -> Iterator[tuple[str, str, Damage]]:
    for name, change in content.ROUNDS.items():
        yield "rounds.jsonl", name, partial(content.in_records, "rounds.jsonl", change)
    for name, change in content.CLIENTS.items():
        yield "clients.jsonl", name, partial(content.in_records, "clients.jsonl", change)
    for file in content.RECORDS:
        for name, damage in files.texts(file, "[]\n", "{}\n", "null\n", "\n\n\n", '{"round": 1}\n'):
            yield file, name, damage
        yield file, "a number of 5000 digits", _replaced(file, '"round": 1', f'"round": {"1" * 5000}')
        yield file, "a blank line", _replaced(file, "\n", "\n\n")
        yield file, "two records in a line", _replaced(file, "}\n{", "},{")


def cases() -> list[Case]:
    """Those of this module."""
    whole: dict[str, Damage] = {
        "an unknown file": _written("notes.txt", "mine"),
        "no environment.json": lambda run: (run / "environment.json").unlink(),
        "half a line at the end": content.half_a_line,
    }
    found = [_case("whole finished runs", name, damage, None) for name, damage in whole.items()]
    unknown = partial(content.in_config, "day = 2024-01-01")
    found.append(_case("whole finished runs", "a setting that is unknown here", unknown, None, "config.toml"))
    found += [_case("summary.json of a finished run", name, damage, "summary.json") for name, damage in _summaries()]
    found += [_case(f"{file} of a finished run", name, damage, file) for file, name, damage in _records()]
    found += [
        Case("config.toml of a finished run", name, partial(_configuration, damage))
        for name, damage in content.configurations()
    ]
    found += [_case("inputs.json of a finished run", name, damage, "inputs.json") for name, damage in content.inputs()]
    return found
