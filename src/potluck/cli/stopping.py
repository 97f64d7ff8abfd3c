"""What Ctrl-C does to a command that runs for long."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Let Ctrl-C, or a polite kill, end work after the step that is running; a second one does not wait.

    Args:
        stop: Asks for it, and says so, in a thread of its own: what is interrupted may be in the midst of a line, where
            nothing can be printed or waited for.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    asking: list[threading.Thread] = []

    def ask(number: int, _frame: Any) -> None:
        signal.signal(number, before[signal.Signals(number)])
        asking.append(threading.Thread(target=stop))
        asking[-1].start()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for thread in asking:
            thread.join()
