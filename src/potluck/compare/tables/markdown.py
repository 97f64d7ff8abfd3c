"""The table as Markdown."""

from __future__ import annotations

import re

from potluck.compare.comparing import Comparison
from potluck.compare.tables.gains import gain_heading, gain_lines
from potluck.compare.tables.words import lines, notes, target_name
from potluck.messages import visible


def markdown(comparison: Comparison) -> str:
    """A table, then who gains, what it shows, and warnings; the best accuracy is bold."""
    to = target_name(comparison)
    headings = ["method", "seeds", "accuracy (%)", "95 % interval", "difference", "p", "bytes", "FLOP", "of the server",
                f"bytes to {to}", f"FLOP to {to}"]  # fmt: skip
    rows = [headings, ["---", *["---:"] * (len(headings) - 1)]]
    for line in lines(comparison):
        accuracy = f"**{line.accuracy}**" if line.best else line.accuracy
        costs = (line.bytes, line.flops, line.server_flops, line.target_bytes, line.target_flops)
        texts = (line.interval, line.difference, line.p, *costs)
        rows.append([_escape(line.labelled), line.seeds, accuracy, *texts])
    table = ["| " + " | ".join(row) + " |" for row in rows]
    said = [f"- {_escape(note)}" for note in notes(comparison)]
    said += [f"- **Note.** {_escape(warning)}" for warning in comparison.warnings]
    helped = [f"- {_escape(line)}" for line in gain_lines(comparison)]
    if helped:
        said = [_escape(gain_heading(comparison)), "", *helped, "", *said]
    return "\n".join([*table, "", *said]) + "\n"


def _escape(text: str) -> str:
    r"""Text that Markdown sets as it is: no name in it is a link, an image, a formula or the end of a cell.

    >>> print(_escape("[a](javascript:b).npz"))
    \[a\](javascript:b).npz
    """
    text = visible(" ".join(text.split()))
    text = re.sub(r"[\\`*_\[\]|~$<>&]", r"\\\g<0>", text)
    # What GitHub would make links of without any brackets.
    text = re.sub(r":(?=//)|(?<=www)\.|@", r"\\\g<0>", text, flags=re.IGNORECASE)
    return re.sub(r"^([0-9]*)([#+=.)-])", r"\1\\\2", text)  # what would begin a heading or a list
