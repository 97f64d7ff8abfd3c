"""The command ``potluck compare``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.carrying import carry_out
from potluck.cli.common import Json, console_for, say, say_json
from potluck.cli.options import METHODS, run_options, settings_by_method
from potluck.cli.report import write_page
from potluck.errors import PotluckError, RunError

if TYPE_CHECKING:
    from rich.console import Console

    from potluck.compare.places import Place
    from potluck.compare.working import Outcome
    from potluck.results import RunResult

app = typer.Typer()


@app.command()
@run_options
def compare(
    given: dict[str, Any],
    methods: Annotated[
        list[str] | None, typer.Argument(help=f"The methods: {METHODS} Without any: what is in --out.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help=r"Seeds of each: 0,1,2 or 0..4. \[default: 0]")] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="KEY=A,B,C",
            help="Values to try of a setting; repeatable. algorithm.mu is of all that have it, pfedes.mu of one.",
        ),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help=r"Compare all to this one. \[default: standalone, else the first]")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Accuracy of: all-last, all-best-validation, participants-best, which is papers.")
    ] = "all-last",
    target: Annotated[
        float | None, typer.Option(help=r"Count costs up to this accuracy, such as 0.8. \[default: the baseline's]")
    ] = None,
    test: Annotated[str, typer.Option(help="Test paired over clients: t or wilcoxon.")] = "t",
    jobs: Annotated[
        int | None, typer.Option(min=1, help=r"Runs side by side. \[default: one per core, up to 8; two per GPU]")
    ] = None,
    part: Annotated[str | None, typer.Option(help="Run only a part, here: 1/3 is the first of three.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the comparison.")] = Path("runs/compare"),
    page: Annotated[
        bool, typer.Option("--report/--no-report", help="Write a page with figures as well, as 'potluck report' does.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Run methods over seeds and settings, and compare them.

    Every run is an ordinary one, in OUT/<method>/seed-<seed>. Stopped or
    killed, the same command goes on where it was; with more methods,
    seeds or values, it adds those. It ends with a table on the terminal
    and in OUT/comparison.md, .csv and .tex, and a page with figures,
    OUT/report.html.

    Examples:
      potluck compare standalone fedproto pfedes --seeds 0,1,2 --rounds 50

      potluck compare standalone pfedes --grid algorithm.mu=0.1,0.3,0.5

      potluck compare --out runs/compare --protocol papers
    """
    from potluck.algorithms import find
    from potluck.compare.comparing import compare_runs, named_protocol, refuse_choices
    from potluck.compare.grid import make_cells, parse_grid, parse_seeds
    from potluck.compare.places import place
    from potluck.compare.sharing import share_alike
    from potluck.compare.tables import plain, show, write_tables
    from potluck.results import read_runs

    console = console_for(as_json)
    # Said before anything runs.
    named_protocol(protocol)
    refuse_choices(test, target)
    varied = parse_grid(grid or [])
    kinds = [find(method).name for method in methods or []]
    if not kinds:
        _refuse_settings({**given, "seeds": seeds, "grid": grid, "jobs": jobs, "part": part})
    chosen = None if seeds is None else parse_seeds(seeds)
    places, remark = [], ""
    if kinds:
        cells, remark = share_alike(make_cells(kinds, chosen, varied, settings_by_method(given, kinds)), out)
        places = place(cells, out)
    _refuse_baseline(baseline, places, out)
    if remark:
        say(console, remark)
    outcomes = _carry_out(console, places, jobs, part, out) if places else {}
    results, problems = read_runs([*(each.path for each in _in_order(places, kinds)), out])
    if not results:
        raise RunError(f"there is no run to compare: {' '.join(problems)}")
    if not kinds:
        results = _in_usual_order(results)
    baseline = _finished(console, baseline or _usual_baseline(kinds), results)
    # What --set says to one method alone differs on purpose; what it says to all is in older runs perhaps not so.
    own = (key for text in given["sets"] or [] if "." in (key := text.partition("=")[0].strip()))
    meant = {key.rpartition(".")[2] for key in (*varied, *own)}
    made = compare_runs(results, baseline=baseline, protocol=protocol, target=target, test=test, compared=meant)
    paths = write_tables(made, out)
    if as_json:
        say_json(plain(made))
    else:
        show(console, made)
    for problem in problems:
        say(console, f"Left out: {problem}", style="yellow")
    say(console, f"Written to {', '.join(map(str, paths))}.")
    if page:
        _write_page(console, [*(result.path for result in results), out], out, given, meant)
    _refuse_failures(outcomes)


def _refuse_settings(given: Mapping[str, Any]) -> None:
    """Raise if it is said how to run, and not what: a file of settings names no methods to compare."""
    from potluck.errors import ConfigError

    flags = [name for name, value in given.items() if value not in (None, []) and name != "data_dir"]
    if flags:
        flag = {"sets": "set"}.get(flags[0], flags[0].replace("_", "-"))
        raise ConfigError(
            f"--{flag} says how to run, and no method is named: name those to compare first, as in 'potluck compare "
            f"standalone pfedes --{flag} ...'. Without any, the runs in --out are compared as they are."
        )


def _in_order(places: Sequence[Place], kinds: Sequence[str]) -> list[Place]:
    """What is there, in the order in which methods were named: runs go by seed."""
    return sorted(
        (each for each in places if each.begun), key=lambda each: kinds.index(each.cell.config.algorithm["name"])
    )


def _in_usual_order(results: Sequence[RunResult]) -> list[RunResult]:
    """Runs of methods that nobody named, in the order in which methods are listed: Standalone is first."""
    from potluck.algorithms import known

    order = known()
    return sorted(results, key=lambda run: order.index(run.algorithm) if run.algorithm in order else len(order))


def _usual_baseline(kinds: Sequence[str]) -> str | None:
    """Standalone if it is one of the methods that were named, and else the first of them."""
    from potluck.compare.gains import BASELINE

    return BASELINE if BASELINE in kinds else next(iter(kinds), None)


def _finished(console: Console, baseline: str | None, results: Sequence[RunResult]) -> str | None:
    """The baseline, if a run of it is finished; its runs may have failed, or be on another machine."""
    if baseline is None:
        return None
    finished = {run.algorithm for run in results if run.finished}
    if baseline.lower().partition(" ")[0] in finished:
        return baseline
    if finished:
        say(console, f"{baseline} has no finished run here: compared to the first that has.", style="yellow")
    return None


def _refuse_baseline(baseline: str | None, places: Sequence[Place], out: Path) -> None:
    """Raise if no run is, or will be, of the baseline."""
    from potluck.errors import ConfigError, nearest
    from potluck.results import read_runs

    if baseline is None:
        return
    named = {place.cell.config.algorithm["name"] for place in places}
    name = baseline.lower().partition(" ")[0]
    if name not in named and name not in (named := named | {run.algorithm for run in read_runs([out])[0]}):
        raise ConfigError(nearest(baseline, named, "baseline"))


def _carry_out(
    console: Console, places: Sequence[Place], jobs: int | None, part: str | None, out: Path
) -> dict[Place, Outcome]:
    """Run what is left of the part that is asked for."""
    from potluck.compare.checking import DataCheck, check
    from potluck.compare.grid import parse_part
    from potluck.compare.running import default_jobs

    number, parts = parse_part(part) if part is not None else (1, 1)
    mine = list(places)[number - 1 :: parts]
    for remark in DataCheck()(places):
        say(console, remark, style="yellow")
    left = [place for place in mine if not place.finished]
    device = check(place.cell.config for place in left)
    side_by_side = jobs or default_jobs(len(mine), device)
    of_all = f" (of {len(places)} in all)" if parts > 1 else ""
    begun = sum(place.begun for place in left)
    how_far = f"{len(mine) - len(left)} done, {begun} begun, {len(left) - begun} to begin"
    say(console, f"{len(mine)} runs{of_all}: {how_far}; {side_by_side} side by side on {device}.")
    return carry_out(console, mine, side_by_side, out)


def _refuse_failures(outcomes: Mapping[Place, Outcome]) -> None:
    failed = [str(place.cell) for place, outcome in outcomes.items() if outcome.verdict == "failed"]
    if failed:
        raise PotluckError(
            f"{len(failed)} of {len(outcomes)} runs failed, for the reasons above: {', '.join(failed)}. "
            "The table is of the others; the same command tries again."
        )


def _write_page(
    console: Console, paths: Sequence[Path], out: Path, given: Mapping[str, Any], meant: Collection[str]
) -> None:
    """A page of the same runs in the same order; a comparison is none the worse without it."""
    try:
        write_page(console, paths, out, data_dir=given.get("data_dir"), meant=meant)
    except PotluckError as error:
        say(console, f"No page with figures: {error}", style="yellow")
