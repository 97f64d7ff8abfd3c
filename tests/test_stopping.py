"""Ctrl-C at any moment."""

from __future__ import annotations

import signal
import threading

from potluck.cli.stopping import stopping


def test_it_may_come_in_the_midst_of_a_line() -> None:
    """As with the streams of Python, nobody can write a line in the midst of another."""
    line = threading.Lock()
    said: list[str] = []

    def write(text: str, *, interrupted: bool = False) -> None:
        assert line.acquire(timeout=30)
        try:
            if interrupted:
                signal.raise_signal(signal.SIGINT)
            said.append(text)
        finally:
            line.release()

    before = signal.getsignal(signal.SIGINT)
    with stopping(lambda: write("stopping")):
        write("at work", interrupted=True)
    assert said == ["at work", "stopping"]
    assert signal.getsignal(signal.SIGINT) is before
