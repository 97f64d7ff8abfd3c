"""A comparison as a table: on the terminal, and as Markdown, CSV, LaTeX and JSON."""

from __future__ import annotations

from pathlib import Path

from potluck.compare.comparing import Comparison
from potluck.compare.tables.latex import latex
from potluck.compare.tables.markdown import markdown
from potluck.compare.tables.plain import csv, plain
from potluck.compare.tables.terminal import show
from potluck.run.files import write_bytes

__all__ = ["csv", "latex", "markdown", "plain", "show", "write_tables"]


def write_tables(comparison: Comparison, folder: Path) -> list[Path]:
    """Write ``comparison.md``, ``.csv`` and ``.tex``, each at once; their paths."""
    contents = {"md": markdown(comparison), "csv": csv(comparison), "tex": latex(comparison)}
    paths = [folder / f"comparison.{ending}" for ending in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        write_bytes(path, content.encode())
    return paths
