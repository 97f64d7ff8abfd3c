"""Reads runs, and writes the report: the page, and its figures as PDF and PNG."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potluck import __version__
from potluck.errors import RunError
from potluck.messages import visible
from potluck.report.evaluation import evaluation_note
from potluck.report.figures.base import Plot
from potluck.report.figures.opened import Opened
from potluck.report.figures.style import drawing
from potluck.report.page import content
from potluck.report.page.plots import plots
from potluck.report.page.svg import as_bytes, inline, settle
from potluck.results import groups as grouped
from potluck.results import read_runs
from potluck.run.files import read_text, refuse_links, write_bytes

if TYPE_CHECKING:
    from jinja2 import Template

    from potluck.results import RunResult

PAGE, FIGURES = "report.html", "figures"
"""The page, and the folder beside it that holds the figures."""
_MOST = 1 << 28
"""Bytes of an earlier page that is looked at."""


def write_report(
    paths: Iterable[str | Path],
    out: str | Path | None = None,
    *,
    data_dir: str | None = None,
    quick: bool = False,
    meant: Collection[str] = (),
    warn: Callable[[str], None] = lambda _text: None,
    tell: Callable[[str], None] = lambda _text: None,
) -> Path:
    """Write a report of runs, and give where its page is.

    Args:
        paths: Folders of runs, or folders that hold some. What is damaged or no run is named and left out.
        out: Folder to write into; by default beside the runs, or into the run if there is only one.
        data_dir: Where data sets are, if not where the runs found them.
        quick: Leave out figures that need the clients' networks.
        meant: Settings that differ between methods on purpose; the page shows them all the same.
        warn: Told what a reader must know: what was left out, and where runs differ in more than the method.
        tell: Told what is being done.
    """
    folders = [Path(path) for path in paths]
    tell("reading")
    results, problems = read_runs(folders)
    if not results:
        raise RunError(f"there is no run to report: {' '.join(problems)}")
    folder = Path(out) if out is not None else default_folder(folders, results)
    refuse_links(folder / FIGURES)
    methods = grouped(results)
    concerns = content.warnings(methods)
    for text in (*problems, *content.warnings(methods, meant)):
        warn(text)
    with drawing():
        made, missing = plots(methods, Opened(data_dir), quick=quick, tell=tell)
        tell("writing")
        taken: set[str] = set()
        shown = [_write_plot(plot, folder, taken) for plot in made]
    text = _template().render(
        title=_title([method.title for method in methods]),
        version=__version__,
        about=content.setting_line(methods),
        headline=content.headline(methods),
        evaluated=evaluation_note(run.config["algorithm"] for run in results),
        several=any(len(method.runs) > 1 for method in methods),
        warnings=concerns,
        problems=problems,
        plots=shown,
        missing=missing,
        own=content.own_settings(methods),
        differ=content.settings_that_differ(methods),
        common=content.settings_in_common(methods),
        runs=content.runs_table(methods, folder),
        environments=content.environments(results),
    )
    before = _linked(folder / PAGE)
    # Names of folders and classes may hold what no page may, and a terminal would obey.
    write_bytes(folder / PAGE, visible(text, keep="\n").encode())
    for name in before - _linked(folder / PAGE):
        (folder / FIGURES / name).unlink(missing_ok=True)
    return folder / PAGE


def default_folder(paths: Sequence[Path], results: Sequence[RunResult]) -> Path:
    """Where a report goes if nobody says: into the only run, or into the folder that holds all of them."""
    if len(results) == 1:
        return results[0].path
    if len(paths) == 1:
        return paths[0]
    return Path(os.path.commonpath([result.path.resolve() for result in results]))


def _title(titles: Sequence[str]) -> str:
    return ", ".join(titles) if len(titles) <= 4 else f"{', '.join(titles[:3])} and {len(titles) - 3} more"


def _write_plot(plot: Plot, folder: Path, taken: set[str]) -> dict[str, Any]:
    """Write the files of a figure, under names that are not taken; what the page needs to know of it."""
    versions = []
    for label, figure in plot.versions.items():
        name = file_name(plot.name, label)
        name = next(each for each in (name, *(f"{name}-{count}" for count in range(2, 1000))) if each not in taken)
        taken.add(name)
        settle(figure)
        for kind in ("pdf", "png"):
            write_bytes(folder / FIGURES / f"{name}.{kind}", as_bytes(figure, kind), durable=False)
        versions.append((label, inline(figure, name, f"{plot.title}: {label}" if label else plot.title), name))
    return {"name": plot.name, "title": plot.title, "caption": plot.caption, "versions": versions}


def file_name(plot: str, label: str) -> str:
    """What a version of a figure is called on the disk.

    >>> file_name("tsne", "pFedES mu=0.3"), file_name("clients", "")
    ('tsne-pfedes-mu-0-3', 'clients')
    """
    return "-".join([plot, *re.findall("[a-z0-9]+", label.lower())])[:80]


def _linked(page: Path) -> set[str]:
    """The files of figures that a page links: those of an earlier report are ours to delete, and nothing else is."""
    try:
        return set(re.findall(rf'href="{FIGURES}/([a-z0-9-]+\.(?:pdf|png))"', read_text(page, _MOST)))
    except RunError:
        return set()


def _template() -> Template:
    from jinja2 import DictLoader, Environment, StrictUndefined

    texts = {
        name: (files(__package__) / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    }
    made = Environment(loader=DictLoader(texts), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return made.get_template("page.html")
