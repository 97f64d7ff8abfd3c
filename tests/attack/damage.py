"""Files of stopped runs that are damaged, swapped or forged before a resume.

What is forged can be told by its types and shapes: other numbers that could be right are not, where every checksum of
them is redone.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from attack import runs
from attack.judging import Case, Verdict, first_fault
from attack.material import copy_of, made_empty

Damage = Callable[[Path], object]
LAST = runs.ROUNDS - 1
"""The round of the newest checkpoint of a stopped run."""


def _edit(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _flip(where: float) -> Damage:
    def change(content: bytes) -> bytes:
        number = int(where * (len(content) - 1))
        return content[:number] + bytes([content[number] ^ 1]) + content[number + 1 :]

    return _edit(change)


def _instead(make: Callable[[Path], object]) -> Damage:
    def do(path: Path) -> None:
        path.unlink()
        make(path)

    return do


def _link_to_copy(path: Path) -> None:
    """What is linked lies outside, and is right; still it is not the run's."""
    run = next(parent for parent in path.parents if parent.name == "run")
    outside = run.parent / "outside" / path.name
    shutil.move(path, outside)
    path.symlink_to(outside)


KINDS: dict[str, Damage] = {
    "empty": _edit(lambda _: b""),
    "half": _edit(lambda content: content[: len(content) // 2]),
    "five bytes short": _edit(lambda content: content[:-5]),
    "a bit early": _flip(0.1),
    "a bit late": _flip(0.93),
    "zeros of the same length": _edit(lambda content: bytes(len(content))),
    "noise": _edit(lambda content: zlib.compress(content)[::-1]),
    "deep lists": _edit(lambda _: b"[" * 200_000),
    "null": _edit(lambda _: b"null\n"),
    "a list": _edit(lambda _: b"[1]\n"),
    "nothing known": _edit(lambda _: b'{"x": 1}\n'),
    "missing": lambda path: path.unlink(),
    "a folder": _instead(lambda path: path.mkdir()),
    "a pipe": _instead(os.mkfifo),
    "a link to /dev/zero": _instead(lambda path: path.symlink_to("/dev/zero")),
    "a link into nothing": _instead(lambda path: path.symlink_to("nothing")),
    "a link to itself outside": _link_to_copy,
}
FILES = {
    "config.toml": "config.toml",
    "environment.json": "environment.json",
    "inputs.json": "inputs.json",
    "rounds.jsonl": "rounds.jsonl",
    "clients.jsonl": "clients.jsonl",
    "the newest manifest": f"checkpoint/round-{LAST:05d}/manifest.json",
    "the newest server": f"checkpoint/round-{LAST:05d}/server.safetensors",
    "a client": "",
}


def _client(run: Path) -> Path:
    """The state of a client that is only in the newest checkpoint."""
    return min(run.glob(f"clients/*/round-{LAST:05d}.safetensors"))


def _damaged(name: str, kind: str, folder: Path) -> Verdict:
    run = _copy(folder)
    path = run / FILES[name] if FILES[name] else _client(run)
    KINDS[kind](path)
    return _judged(run)


def _copy(folder: Path) -> Path:
    outside = folder / "outside"
    outside.mkdir()
    (outside / "round-00001.safetensors").write_text("precious")
    return copy_of(runs.stopped(), folder / "run")


def _judged(run: Path, *says: str) -> Verdict:
    outside = run.parent / "outside"
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    verdict = runs.resume(run, None, *says)
    after = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    harmed = Verdict("harmed", "a file outside changed") if before != after else verdict
    return first_fault(harmed, verdict)


# ---- what needs more than one file ----------------------------------------------------------------------------------


def _other(run: Path, *names: str) -> None:
    """Lay files of a run with another seed over this one."""
    other = runs.stopped(seed=1)
    for name in names:
        target = run / name
        if target.is_dir():
            shutil.rmtree(target)
            shutil.copytree(other / name, target)
        else:
            shutil.copy(other / name, target)


def _lines(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Damage:
    return lambda run: _edit(lambda content: b"".join(change(content.splitlines(keepends=True))))(run / name)


def _replaced(name: str, old: bytes, new: bytes) -> Damage:
    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new, 1)

    return lambda run: _edit(change)(run / name)


def _linked(name: str) -> Damage:
    def do(run: Path) -> None:
        target = run.parent / "outside" / "folder"
        shutil.move(run / name, target)
        (run / name).symlink_to(target)

    return do


def _both(name: str, kind: str) -> Damage:
    def do(run: Path) -> None:
        for number in (LAST, LAST - 1):
            KINDS[kind](run / f"checkpoint/round-{number:05d}" / name)

    return do


def _lock(make: Callable[[Path, Path], object]) -> Damage:
    def do(run: Path) -> None:
        (run / ".lock").unlink(missing_ok=True)
        make(run / ".lock", run.parent / "outside" / "round-00001.safetensors")

    return do


TOGETHER: dict[str, Damage] = {
    "checkpoint of another run": lambda run: _other(run, "checkpoint"),
    "states of another run": lambda run: _other(run, "clients"),
    "checkpoint and states of another run": lambda run: _other(run, "checkpoint", "clients"),
    "records of another run": lambda run: _other(run, "rounds.jsonl", "clients.jsonl"),
    "rounds of another run": lambda run: _other(run, "rounds.jsonl"),
    "clients of another run": lambda run: _other(run, "clients.jsonl"),
    "all but config of another run": lambda run: _other(
        run, "checkpoint", "clients", "rounds.jsonl", "clients.jsonl", "inputs.json", "environment.json"
    ),
    "config of another run": lambda run: _other(run, "config.toml"),
    "inputs of another run": lambda run: _other(run, "inputs.json"),
    "a line deleted": _lines("rounds.jsonl", lambda lines: lines[1:]),
    "a line doubled": _lines("rounds.jsonl", lambda lines: [lines[0], *lines]),
    "lines reversed": _lines("clients.jsonl", lambda lines: lines[::-1]),
    "a client's line deleted": _lines("clients.jsonl", lambda lines: lines[1:]),
    "a blank line": _lines("rounds.jsonl", lambda lines: [b"\n", *lines]),
    "a byte order mark": _lines("rounds.jsonl", lambda lines: [b"\xef\xbb\xbf", *lines]),
    "line ends of Windows": _replaced("rounds.jsonl", b"\n", b"\r\n"),
    "an accuracy of the same length": _replaced("rounds.jsonl", b'"accuracy": 0', b'"accuracy": 1'),
    "a client's accuracy": _replaced("clients.jsonl", b'"accuracy": 0', b'"accuracy": 1'),
    "NaN as a loss": _replaced("rounds.jsonl", b'"loss": ', b'"loss": NaN, "was": '),
    "1e400 as a loss": _replaced("rounds.jsonl", b'"loss": ', b'"loss": 1e400, "was": '),
    "text as a round": _replaced("rounds.jsonl", b'"round": 1', b'"round": "one"'),
    "null as a round": _replaced("rounds.jsonl", b'"round": 1', b'"round": null'),
    "clients a link": _linked("clients"),
    "a client's folder a link": _linked("clients/0"),
    "checkpoint a link": _linked("checkpoint"),
    "an old checkpoint a link": _linked(f"checkpoint/round-{LAST - 1:05d}"),
    "the newest checkpoint a link": _linked(f"checkpoint/round-{LAST:05d}"),
    "checkpoint a file": lambda run: made_empty(run / "checkpoint"),
    "clients a file": lambda run: made_empty(run / "clients"),
    "no checkpoint": lambda run: shutil.rmtree(run / "checkpoint"),
    "no states": lambda run: shutil.rmtree(run / "clients"),
    "both manifests cut": _both("manifest.json", "half"),
    "both servers flipped": _both("server.safetensors", "a bit late"),
    "both manifests folders": _both("manifest.json", "a folder"),
    "both servers pipes": _both("server.safetensors", "a pipe"),
    "lock a link": _lock(lambda lock, outside: lock.symlink_to(outside)),
    "lock a folder": _lock(lambda lock, _: lock.mkdir()),
    "lock a pipe": _lock(lambda lock, _: os.mkfifo(lock)),
    "lock a hard link outside": _lock(lambda lock, outside: os.link(outside, lock)),
    "summary a folder": lambda run: (run / "summary.json").mkdir(),
    "summary a pipe": lambda run: os.mkfifo(run / "summary.json"),
    "summary a link": lambda run: (run / "summary.json").symlink_to("nothing"),
    "summary empty": lambda run: (run / "summary.json").touch(),
    "a state a folder": lambda run: (run / f"clients/0/round-{LAST + 1:05d}.safetensors").mkdir(),
}  # fmt: skip


# ---- forged, with every checksum redone -----------------------------------------------------------------------------


def forge(run: Path, change: Callable[[dict[str, Any]], object], number: int = LAST) -> None:
    """Change what a manifest says, and redo its checksum."""
    path = run / f"checkpoint/round-{number:05d}/manifest.json"
    content = json.loads(path.read_text())["checkpoint"]
    change(content)
    crc = zlib.crc32(json.dumps(content, sort_keys=True).encode())
    path.write_text(json.dumps({"crc32": crc, "checkpoint": content}))


def _set(**values: object) -> Damage:
    return lambda run: forge(run, lambda content: content.update(values))


def _drop(name: str) -> Damage:
    return lambda run: forge(run, lambda content: content.pop(name))


def _clients(change: Callable[[dict[str, Any]], object]) -> Damage:
    return lambda run: forge(run, lambda content: change(content["clients"]))


def _first(clients: dict[str, Any], value: object) -> None:
    clients[next(iter(clients))] = value


def _records(name: str, change: Callable[[dict[str, Any]], object]) -> Damage:
    """Change a record, and redo the checksums of both checkpoints."""

    def do(run: Path) -> None:
        lines = (run / name).read_text().splitlines()
        record = json.loads(lines[0])
        change(record)
        added = len(json.dumps(record)) - len(lines[0])
        (run / name).write_text("\n".join([json.dumps(record), *lines[1:]]) + "\n")
        for number in (LAST, LAST - 1):
            forge(run, functools.partial(_remark, run, name, added), number)

    return do


def _remark(run: Path, name: str, added: int, content: dict[str, Any]) -> None:
    length = content["records"][name][0] + added
    content["records"][name] = [length, zlib.crc32((run / name).read_bytes()[:length])]


def _state(which: str, change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Change tensors, and redo the checksums; without a checkpoint before it to go back to."""

    def do(run: Path) -> None:
        server = run / f"checkpoint/round-{LAST:05d}/server.safetensors"
        path = server if which == "server" else _client(run)
        tensors = safetensors.torch.load_file(path)
        change(tensors)
        _redone(run, which, path, safetensors.torch.save(tensors))

    return do


def _bytes(which: str, content: bytes) -> Damage:
    def do(run: Path) -> None:
        server = run / f"checkpoint/round-{LAST:05d}/server.safetensors"
        _redone(run, which, server if which == "server" else _client(run), content)

    return do


def _redone(run: Path, which: str, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    crc = zlib.crc32(content)

    def change(manifest: dict[str, Any]) -> None:
        if which == "server":
            manifest["server"] = crc
        else:
            manifest["clients"][path.parent.name][1] = crc

    forge(run, change)


def _rename(tensors: dict[str, torch.Tensor]) -> None:
    name = next(iter(tensors))
    tensors[f"{name}x"] = tensors.pop(name)


def _shape(tensors: dict[str, torch.Tensor]) -> None:
    name = next(iter(tensors))
    tensors[name] = torch.zeros(3, *tensors[name].shape)


def _wider(tensors: dict[str, torch.Tensor]) -> None:
    name = next(name for name, tensor in tensors.items() if tensor.dim())
    tensors[name] = torch.cat([tensors[name], tensors[name]])


VALUES: dict[str, list[object]] = {
    "round": ["3", None, -1, 2, 3.5, [3], 10**30],
    "version": [None, "2", 1, 3, [2], 10**30],
    "config": [None, [], "x", {}, {"seed": {"a": {"b": [[[[]]]]}}}],
    "records": [None, [], "x", {}, {"rounds.jsonl": 5}],
    "clients": [None, [], "x", 7, {}, {"x": [1, 1]}],
    "server": [None, "1", [], 1.5, -1],
}
FORGED: dict[str, Damage] = {
    **{f"{name} is {value!r}": _set(**{name: value}) for name, values in VALUES.items() for value in values},
    **{f"{name} missing": _drop(name) for name in ("round", "version", "config", "records", "clients", "server")},
    "a key too many": _set(more=1),
    "a client left out": _clients(lambda clients: clients.pop(next(iter(clients)))),
    "a client outside": _clients(lambda clients: clients.update({"../../outside": [1, 1]})),
    "a client too many": _clients(lambda clients: clients.update({"77": [1, 1]})),
    "a client with a space": _clients(lambda clients: clients.update({" 1": [1, 1]})),
    "a version of text": _clients(lambda clients: _first(clients, ["1", 1])),
    "a version of one": _clients(lambda clients: _first(clients, [1])),
    "a version of null": _clients(lambda clients: _first(clients, None)),
    "a version to come": _clients(lambda clients: _first(clients, [99, 1])),
    "marks of text": _set(records={"rounds.jsonl": ["1", "2"], "clients.jsonl": [0, 0]}),
    "marks below zero": _set(records={"rounds.jsonl": [-1, 0], "clients.jsonl": [0, 0]}),
    "no records kept": _set(records={"rounds.jsonl": [0, 0], "clients.jsonl": [0, 0]}),
    "a record's round is text": _records("rounds.jsonl", lambda record: record.update(round="one")),
    "a record's round is null": _records("rounds.jsonl", lambda record: record.update(round=None)),
    "a record without participants": _records("rounds.jsonl", lambda record: record.pop("participants")),
    "a record without all": _records("rounds.jsonl", lambda record: record.pop("all")),
    "a record's flops are text": _records("rounds.jsonl", lambda record: record.update(flops="x")),
    "a record's accuracy is 7": _records("rounds.jsonl", lambda record: record["participants"].update(accuracy=7)),
    "a record's cohort is null": _records("rounds.jsonl", lambda record: record.update(cohort=None)),
    "a record's seconds are text": _records("rounds.jsonl", lambda record: record.update(seconds="1")),
    "a record's client is text": _records("clients.jsonl", lambda record: record.update(client="x")),
    "a client's accuracy is a list": _records("clients.jsonl", lambda record: record.update(accuracy=[])),
    **{
        f"{which}: {what}": _state(which, change)
        for which in ("server", "client")
        for what, change in {
            "no tensors": lambda tensors: tensors.clear(),
            "a name": _rename,
            "a dimension more": _shape,
            "twice as wide": _wider,
        }.items()
    },
    **{
        f"{which}: {what}": _bytes(which, content)
        for which in ("server", "client")
        for what, content in {
            "a pickle": b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
            "a header without an end": (1 << 62).to_bytes(8, "little") + b"{",
            "a deep header": (200_000).to_bytes(8, "little") + b"[" * 200_000,
        }.items()
    },
}


def _run(damage: Damage, folder: Path) -> Verdict:
    run = _copy(folder)
    damage(run)
    return _judged(run)


def cases() -> list[Case]:
    """Those of this module."""
    kinds = [
        Case("a damaged file", f"{name}: {kind}", functools.partial(_damaged, name, kind))
        for name in FILES
        for kind in KINDS
    ]
    together = [
        Case("several damaged files", name, functools.partial(_run, damage)) for name, damage in TOGETHER.items()
    ]
    forged = [
        Case("forged, checksums redone", name, functools.partial(_run, damage)) for name, damage in FORGED.items()
    ]
    return kinds + together + forged
