"""What stands in messages: text that a terminal shows as it is, and commands that can be copied."""

from __future__ import annotations

import os
import shlex
import unicodedata
from pathlib import Path

_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that steer a terminal, are not seen, change the direction of text or end a line."""
_JOINERS = "\u200c\u200d"
"""Not seen either, but parts of words and of emoji."""


def visible(text: str, keep: str = "") -> str:
    r"""Text whose control characters are written out; a name may hold any, and a terminal would obey them.

    Args:
        text: Any text.
        keep: Control characters to leave as they are, such as the ends of lines.

    >>> print(visible("a\x1b]0;title\a, b\nc, \u00dcbung"))
    a\x1b]0;title\x07, b\nc, Übung
    """
    if text.isprintable():
        return text
    return "".join(letter if letter in keep or _is_seen(letter) else _written_out(letter) for letter in text)


def command(*words: str | Path) -> str:
    r"""A command of Potluck that can be copied into a shell, whatever the names in it are.

    >>> print(command("show", Path("runs/my run")))
    potluck show 'runs/my run'
    >>> print(command("resume", Path("-x")), command("show", Path("a\nb")), sep=", ")
    potluck resume ./-x, potluck show $'a\nb'
    """
    return " ".join(["potluck", *map(_quoted, words)])


def _is_seen(letter: str) -> bool:
    return unicodedata.category(letter) not in _UNSEEN or letter in _JOINERS


def _written_out(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _quoted(word: str | Path) -> str:
    text = str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = f"./{text}"  # or it would be taken for an option
    if visible(text) == text:
        return shlex.quote(text)
    # What cannot be seen cannot be copied: bash, zsh and ksh read it back from this form.
    return f"$'{''.join(map(_in_dollar_quotes, text))}'"


def _in_dollar_quotes(letter: str) -> str:
    if letter in "\\'":
        return f"\\{letter}"
    if letter == "\n":
        return r"\n"
    return letter if _is_seen(letter) else "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))
