"""What can be wrong in the files of a finished run, though each can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from attack import files

RECORDS = ("rounds.jsonl", "clients.jsonl")
Records = list[dict[str, Any]]
Change = Callable[[Records], object]


def in_summary(run: Path, **values: Any) -> None:
    """Put values into ``summary.json``."""
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def without(key: str, run: Path) -> None:
    """Take a key out of ``summary.json``."""
    path = run / "summary.json"
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != key}))


def in_records(name: str, change: Change, run: Path) -> None:
    """Change the records of a file; a change may give other records."""
    path = run / name
    records: Records = [json.loads(line) for line in path.read_text().splitlines()]
    changed = change(records)
    records = changed if isinstance(changed, list) else records
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def replaced(path: Path, old: str, new: str) -> None:
    """Replace the first such text in a file."""
    text = path.read_text()
    assert old in text, f"no {old!r} in {path}"
    path.write_text(text.replace(old, new, 1))


def appended(path: Path, more: bytes) -> None:
    """Add to a file."""
    path.write_bytes(path.read_bytes() + more)


def in_config(line: str, run: Path) -> None:
    """Put a setting into ``config.toml`` in place of the one of that name."""
    path, key = run / "config.toml", line.partition(" ")[0]
    lines = [each for each in path.read_text().splitlines() if each.partition(" ")[0] != key]
    path.write_text("\n".join([line, *lines]) + "\n")


def half_a_line(run: Path) -> None:
    """As a process leaves it that is killed in the wrong moment; it does not count."""
    for name in ("rounds.jsonl", "clients.jsonl"):
        appended(run / name, b'{"round": 5, "cli')


def _set(number: int, path: str, value: Any) -> Change:
    """Set a value in a record, ``a.b`` within a table of it."""

    def change(records: Records) -> None:
        table, keys = records[number], path.split(".")
        for key in keys[:-1]:
            table = table[key]
        assert keys[-1] in table, path
        table[keys[-1]] = value

    return change


def _gone(number: int, key: str) -> Change:
    return lambda records: records[number].pop(key)


def _nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def _swapped(records: Records) -> None:
    """Two clients of the last round, who hold each other's results."""
    records[-1]["client"], records[-2]["client"] = records[-2]["client"], records[-1]["client"]
    records[-1], records[-2] = records[-2], records[-1]


def _another_run(records: Records) -> Records:
    return [{**record, "cohort": [0]} for record in records]


_VALUES: dict[str, Any] = {
    "text": "0.5",
    "a list": [0.5],
    "true": True,
    "7": 7,
    "-0.1": -0.1,
    "1.0000001": 1.0000001,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a nested list": _nested(50),
    "another": 0.123456,
}
_COUNTS: dict[str, Any] = {"none": None, "text": "100", "-1": -1, "1.5": 1.5, "true": True, "10**40": 10**40}

ROUNDS: dict[str, Change] = {
    "doubled": lambda records: [record for record in records for _ in range(2)],
    "twice": lambda records: records * 2,
    "reversed": lambda records: records[::-1],
    "no first round": lambda records: records[1:],
    "no second round": lambda records: [records[0], *records[2:]],
    "no last round": lambda records: records[:-1],
    "a round too many": lambda records: [*records, {**records[-1], "round": 5}],
    "rounds far beyond the total": lambda records: records + [{**records[-1], "round": n} for n in range(5, 50)],
    "round as text": _set(1, "round", "two"),
    "round none": _set(1, "round", None),
    "round true": _set(0, "round", True),
    "round 1.0": _set(0, "round", 1.0),
    "round -1": _set(0, "round", -1),
    "no participants": _gone(2, "participants"),
    "participants a list": _set(2, "participants", []),
    "participants empty": _set(2, "participants", {}),
    "participants none": _set(2, "participants", None),
    "all empty": _set(3, "all", {}),
    "all none in the last round": _set(3, "all", None),
    "all false": _set(3, "all", False),
    "all copied into a round": lambda records: records[0].update(all=records[-1]["all"]),
    "cohort empty": _set(1, "cohort", []),
    "cohort of others": _set(1, "cohort", [97, 98, 99]),
    "cohort descending": lambda records: records[1]["cohort"].reverse(),
    "cohort with one twice": lambda records: records[1]["cohort"].append(records[1]["cohort"][-1]),
    "cohort with one more": _set(1, "cohort", [0, 1, 2, 3, 4]),
    "cohort as text": _set(1, "cohort", "all"),
    "cohort of one": _another_run,
    "failed not in the cohort": _set(1, "failed", [99]),
    "failed all": lambda records: records[1].update(failed=records[1]["cohort"]),
    "loss as text": _set(1, "loss", "low"),
    "loss another": _set(1, "loss", 1e-9),
    "loss none": _set(1, "loss", None),
    "seconds negative": _set(1, "seconds", -1.0),
    "seconds NaN": _set(1, "seconds", float("nan")),
    "observed a list": lambda records: records[1].update(observed=[1]),
    "observed NaN": lambda records: records[1].update(observed={"mixing": float("nan")}),
    **{f"accuracy {name}": _set(1, "participants.accuracy", value) for name, value in _VALUES.items()},
    **{f"accuracy of all {name}": _set(3, "all.accuracy", value) for name, value in _VALUES.items()},
    **{f"macro_f1 {name}": _set(3, "all.macro_f1", value) for name, value in [*_VALUES.items()][::4]},
    **{f"bytes_up {name}": _set(0, "bytes_up", value) for name, value in _COUNTS.items()},
    **{f"flops {name}": _set(0, "flops", value) for name, value in _COUNTS.items()},
    **{f"no {key}": _gone(0, key) for key in ("round", "cohort", "all", "bytes_down", "flops", "seconds", "loss")},
}
"""What can be wrong in ``rounds.jsonl``."""

CLIENTS: dict[str, Change] = {
    "doubled": lambda records: [record for record in records for _ in range(2)],
    "twice": lambda records: records * 2,
    "reversed": lambda records: records[::-1],
    "one missing": lambda records: records[:-1],
    "a round missing": lambda records: [record for record in records if record["round"] != 2],
    "a round that is none": lambda records: [*records, {**records[-1], "round": 9}],
    "one who had no part": lambda records: [{**records[0], "round": 1, "client": n} for n in range(5)] + records[3:],
    "client 99": _set(-1, "client", 99),
    "client -1": _set(0, "client", -1),
    "client as text": _set(0, "client", "x"),
    "client true": _set(0, "client", True),
    "client 10**30": _set(-1, "client", 10**30),
    "round as text": _set(0, "round", "one"),
    "swapped": _swapped,
    "loss as text": lambda records: _trained(records).update(loss="low"),
    "flops gone": lambda records: _trained(records).pop("flops"),
    "bytes_up another": lambda records: _trained(records).update(bytes_up=1),
    "bytes_up -1": lambda records: _trained(records).update(bytes_up=-1),
    "observed text": lambda records: records[0].update(observed={"mixing": "half"}),
    **{f"accuracy {name}": _set(0, "accuracy", value) for name, value in _VALUES.items()},
    **{f"validation {name}": _set(-1, "validation_accuracy", value) for name, value in [*_VALUES.items()][::3]},
    **{f"no {key}": _gone(0, key) for key in ("round", "client", "accuracy", "macro_f1")},
}
"""What can be wrong in ``clients.jsonl``."""


def _trained(records: Records) -> dict[str, Any]:
    return next(record for record in records if "flops" in record)


def configurations() -> Iterator[tuple[str, Callable[[Path], object]]]:
    """What can be wrong in ``config.toml``."""
    lines = (
        *('seed = "0"', "seed = -1", "seed = true", "seed = 0.0", "seed = 1", f"seed = 0x{'f' * 5000}"),
        *("clients = 3", "clients = 6", "clients = 0", "clients = 1000000000000", 'clients = "5"', "clients = [5]"),
        *("epochs = 0", 'epochs = "1"', "epochs = 1.5", "rounds = 2", "rounds = 0", 'rounds = "4"'),
        *('fraction = "half"', "fraction = 7", "fraction = nan", "learning_rate = inf", "version = 2", 'version = "1"'),
        *("data = 5", "models = 3", "partition = []", "algorithm = 3", "early_stop = 'soon'", "early_stop = 1"),
        *(f"x = {'1' * 5000}", f"x = 0x{'f' * 5000}", "x = nan", "measure = 'everything'", "batch_size = false"),
    )
    for line in lines:
        yield line if len(line) < 40 else f"{line[:20]}...", partial(in_config, line)
    yield "algorithm as text", lambda run: in_config('algorithm = "fedproto"', _without_table(run))
    yield "no algorithm", _without_table
    yield "another algorithm", lambda run: replaced(run / "config.toml", 'name = "fedproto"', 'name = "fedavg"')
    yield "an algorithm without a name", lambda run: replaced(run / "config.toml", 'name = "fedproto"', "")
    yield from ((name, damage) for name, damage in files.texts("config.toml", "[", "x", "a = 1\n"))
    yield "a nested list", partial(in_config, f"x = {'[' * 5000}")
    yield "a nested table", partial(in_config, f"{'.'.join('x' * 3000)} = 1")


def _without_table(run: Path) -> Path:
    path = run / "config.toml"
    path.write_text(path.read_text().partition("[algorithm]")[0])
    return run


def inputs() -> Iterator[tuple[str, Callable[[Path], object]]]:
    """What can be wrong in ``inputs.json``."""

    def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
        def damage(run: Path) -> None:
            content = json.loads((run / "inputs.json").read_text())
            change(content)
            (run / "inputs.json").write_text(json.dumps(content))

        return damage

    yield "no clients", changed(lambda content: content.pop("clients"))
    yield "no training inputs", changed(lambda content: content["clients"].pop("training inputs"))
    yield "clients a list", changed(lambda content: content.update(clients=[]))
    yield "common text", changed(lambda content: content.update(common="none"))
    yield "a client less", changed(lambda content: [each.pop() for each in content["clients"].values()])
    yield "a client less of one kind", changed(lambda content: content["clients"]["test inputs"].pop())
    yield from files.texts("inputs.json", "[]", "{}", "null", "7", "NaN")
