"""The table for a paper: LaTeX with booktabs."""

from __future__ import annotations

import re

from potluck.compare.comparing import Comparison
from potluck.compare.tables.words import lines, notes, target_name

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", "±": r"$\pm$",
    '"': "''",
}  # fmt: skip


def latex(comparison: Comparison) -> str:
    r"""A ``table`` that needs ``\usepackage{booktabs}`` and nothing else; the best accuracy is bold."""
    to = _escape(target_name(comparison))
    body = []
    for line in lines(comparison):
        accuracy = _escape(line.accuracy)
        costs = (line.bytes, line.flops, line.server_flops, line.target_bytes, line.target_flops)
        texts = (line.interval, line.difference, line.p, *costs)
        cells = [
            _first(line.labelled),
            rf"\textbf{{{accuracy}}}" if line.best else accuracy,
            *(_number(text) for text in texts),
        ]
        body.append("    " + " & ".join(cells) + r" \\")
    warnings = "".join(f"% {_comment(warning)}\n" for warning in comparison.warnings)
    return (
        "% \\usepackage{booktabs}\n"
        + warnings
        # Small, and with little between columns: ten of them are to fit between the margins of a page.
        + "\\begin{table}\n  \\centering\n  \\scriptsize\n  \\setlength{\\tabcolsep}{3pt}\n"
        + f"  \\caption{{{_escape(' '.join(notes(comparison)))}}}\n"
        + "  \\begin{tabular}{lrrrrrrrrr}\n    \\toprule\n"
        + "    & & & & & \\multicolumn{3}{c}{in all} & "
        + f"\\multicolumn{{2}}{{c}}{{to {to}}} \\\\\n"
        + "    \\cmidrule(lr){6-8} \\cmidrule(lr){9-10}\n"
        + "    method & accuracy & 95\\,\\% interval & difference & $p$ & bytes & FLOP & server & bytes & FLOP \\\\\n"
        + "    \\midrule\n"
        + "\n".join(body)
        + "\n    \\bottomrule\n  \\end{tabular}\n\\end{table}\n"
    )


def _number(text: str) -> str:
    """A cell: a dash where there is nothing, and a minus sign that is one."""
    if text == "-":
        return "--"
    return re.sub(r"(?<![\w$])-(?=[0-9])", lambda _: "$-$", _escape(text))


def _first(text: str) -> str:
    """The first cell of a row, where a bracket or a star would belong to the line break before it."""
    return ("{}" if text.startswith(("[", "*")) else "") + _escape(text)


def _escape(text: str) -> str:
    r"""Text that LaTeX sets as it is.

    >>> print(_escape("a_b & 5 %"))
    a\_b \& 5 \%
    """
    return "".join(_SPECIAL.get(letter, letter if letter.isprintable() else "?") for letter in text)


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
