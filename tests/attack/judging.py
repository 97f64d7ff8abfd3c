"""Cases, the processes that they run in, and the judgement of what came of them.

A process is forked from one that has everything imported already, so that a case takes tenths of a second. What is
tried is the command line (:func:`command`) or a function (:func:`apart`); both give a :class:`Ran`, which
:func:`refused` and :func:`accepted` turn into a :class:`Verdict`.
"""

from __future__ import annotations

import os
import resource
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from attack.material import contents
from potluck.errors import PotluckError

TIMEOUT = 60.0
"""Seconds after which a process is taken to hang."""
_MEMORY, _FILE = 16 << 30, 2 << 30
"""No process may take more address space, or write a larger file: an attack must not take the machine along."""

Outcome = Literal["held", "traceback", "hang", "silent", "harmed", "unclear", "broken"]
MEANING: dict[Outcome, str] = {
    "held": "the right result, or one clear message and exit code 2",
    "traceback": "an exception that no user should see, or a crash",
    "hang": f"no end within {TIMEOUT:.0f} s",
    "silent": "accepted without a word what is wrong",
    "harmed": "a file outside, a result or a later command was damaged",
    "unclear": "refused, but not by one message that says what is wrong",
    "broken": "the case itself failed",
}


@dataclass(frozen=True)
class Verdict:
    """How a case ended, and what there is to say of it."""

    outcome: Outcome
    text: str = ""


HELD = Verdict("held")


@dataclass(frozen=True)
class Case:
    """One thing to try.

    Attributes:
        group: What the case is counted under in the table.
        name: What is tried, unique within its group.
        run: Does it in the empty folder that it is given, and judges it.
    """

    group: str
    name: str
    run: Callable[[Path], Verdict]


@dataclass(frozen=True)
class Ran:
    """What a process ended in.

    Attributes:
        code: Its exit code, negative for a signal; None if it had to be killed because it did not end.
        out: What it printed.
        err: What it printed on standard error.
        seconds: CPU time that it took.
        peak: The most memory that it held, in bytes.
    """

    code: int | None
    out: str
    err: str
    seconds: float
    peak: int


class Process:
    """A process of its own that does something; what it prints is kept.

    An error of Potluck ends it as it ends the command line: one message, exit code 2. Any other ends in a traceback.
    """

    def __init__(self, do: Callable[[], object]) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be(do, self._out.fileno(), self._err.fileno())
        self._ended: tuple[int, resource.struct_rusage] | None = None

    def poll(self) -> bool:
        """Whether it has ended."""
        if self._ended is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._ended = os.waitstatus_to_exitcode(status), usage
        return self._ended is not None

    def kill(self) -> None:
        """End it at once, and everything that it started."""
        if not self.poll():
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = TIMEOUT) -> Ran:
        """What it ended in; after ``timeout`` seconds it is killed."""
        end, late = time.monotonic() + timeout, False
        while not self.poll():
            if not late and time.monotonic() > end:
                late = True
                self.kill()
            time.sleep(0.003)
        assert self._ended is not None
        code, usage = self._ended
        out, err = _text(self._out), _text(self._err)
        return Ran(None if late else code, out, err, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)


def _text(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read(1 << 20).decode(errors="replace")


def _be(do: Callable[[], object], out: int, err: int) -> None:
    """Be the process; does not come back."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        do()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except PotluckError as error:
        sys.stderr.write(f"potluck: {error}\n")
        code = 2
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def apart(do: Callable[[], object], timeout: float = TIMEOUT) -> Ran:
    """Do something in a process of its own."""
    return Process(do).wait(timeout)


def command(*arguments: object, first: Callable[[], object] | None = None, timeout: float = TIMEOUT) -> Ran:
    """The command line in a process of its own.

    Args:
        *arguments: What is typed after ``potluck``.
        first: Done in that process before.
        timeout: Seconds to wait.
    """
    return start(*arguments, first=first).wait(timeout)


def start(*arguments: object, first: Callable[[], object] | None = None) -> Process:
    """The same, without waiting for it."""

    def do() -> None:
        if first is not None:
            first()
        sys.argv = ["potluck", *map(str, arguments)]
        runpy.run_module("potluck", run_name="__main__")

    return Process(do)


def fell(ran: Ran) -> Verdict | None:
    """The verdict on a process that ended as none may: never, by a signal or in a traceback."""
    if ran.code is None:
        return Verdict("hang", last_line(ran))
    if "Traceback (most recent call last)" in ran.err + ran.out or ran.code not in (0, 2, 130):
        return Verdict("traceback", f"exit code {ran.code}: {last_line(ran)}")
    return None


def refused(ran: Ran, *says: str) -> Verdict:
    """Held if it ended in exit code 2 and one message in which all of ``says`` stand."""
    if verdict := fell(ran):
        return verdict
    if ran.code == 0:
        return Verdict("silent", last_line(ran))
    lines = [line for line in ran.err.splitlines() if line.strip()]
    if len(lines) != 1 or not lines[0].startswith("potluck: "):
        return Verdict("unclear", ran.err.strip() or "no message")
    missing = [text for text in says if text not in lines[0]]
    return Verdict("unclear", f"{missing[0]!r} is not in: {lines[0]}") if missing else HELD


def accepted(ran: Ran, *says: str) -> Verdict:
    """Held if it ended in exit code 0, and all of ``says`` stand in what it printed."""
    if verdict := fell(ran):
        return verdict
    if ran.code != 0:
        return Verdict("unclear", f"exit code {ran.code}: {last_line(ran)}")
    missing = [text for text in says if text not in ran.out + ran.err]
    return Verdict("silent", f"does not say {missing[0]!r}: {last_line(ran)}") if missing else HELD


def first_fault(*verdicts: Verdict) -> Verdict:
    """The first verdict that is not held, if there is one."""
    return next((verdict for verdict in verdicts if verdict.outcome != "held"), HELD)


def unharmed(folder: Path, before: dict[str, bytes | None], how: str) -> Verdict:
    """Held if a folder holds what it did before (see :func:`attack.material.contents`)."""
    after = contents(folder)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name, 0) != after.get(name, 0))
    return Verdict("harmed", f"changed outside {how}: {', '.join(changed)}") if changed else HELD


def last_line(ran: Ran) -> str:
    """The last line that a process printed: of an error if there was one."""
    lines = [line for line in (ran.err or ran.out).splitlines() if line.strip()]
    return lines[-1] if lines else "(nothing printed)"
