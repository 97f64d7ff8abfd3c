"""The command ``potluck compare``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.common import Json, console_for, say
from potluck.cli.options import METHODS, run_options, settings_of
from potluck.errors import PotluckError

if TYPE_CHECKING:
    from rich.console import Console

    from potluck.compare.comparing import Comparison
    from potluck.compare.places import Place
    from potluck.compare.working import Outcome

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
    baseline: Annotated[str | None, typer.Option(help=r"Compare all to this one. \[default: the first]")] = None,
    protocol: Annotated[
        str, typer.Option(help="Accuracy of: all-last, all-best-validation, participants-best, which is papers.")
    ] = "all-last",
    target: Annotated[
        float | None, typer.Option(help=r"Count costs up to this accuracy. \[default: the baseline's]")
    ] = None,
    test: Annotated[str, typer.Option(help="Test paired over clients: t or wilcoxon.")] = "t",
    jobs: Annotated[
        int | None, typer.Option(min=1, help=r"Runs side by side. \[default: one per core, up to 8; two per GPU]")
    ] = None,
    part: Annotated[str | None, typer.Option(help="Run only a part, here: 1/3 is the first of three.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the comparison.")] = Path("runs/compare"),
    as_json: Json = False,
) -> None:
    """Run methods over seeds and settings, and compare them.

    Every run is an ordinary one, in OUT/<method>/seed-<seed>. Stopped or
    killed, the same command goes on where it was; with more methods,
    seeds or values, it adds those. It ends with a table on the terminal
    and in OUT/comparison.md, .csv and .tex.

    Examples:
      potluck compare standalone fedproto pfedes --seeds 0,1,2 --rounds 50

      potluck compare standalone pfedes --grid algorithm.mu=0.1,0.3,0.5

      potluck compare --out runs/compare --protocol papers
    """
    from potluck.compare.comparing import compare_runs, named_protocol, refuse_choices
    from potluck.compare.grid import parse_grid
    from potluck.compare.places import place
    from potluck.compare.tables import plain, show, write_tables
    from potluck.results import read_runs

    console = console_for(as_json)
    # Said before anything runs.
    named_protocol(protocol)
    refuse_choices(test, target)
    varied = parse_grid(grid or [])
    places = place(_cells(given, methods, seeds, varied), out) if methods else []
    _refuse_baseline(baseline, places, out)
    outcomes = _carry_out(console, places, jobs, part, out) if places else {}
    results, problems = read_runs([*(each.path for each in places if each.begun), out])
    meant = {key.rpartition(".")[2] for key in (*varied, *(text.partition("=")[0] for text in given["sets"] or []))}
    made = compare_runs(results, baseline=baseline, protocol=protocol, target=target, test=test, compared=meant)
    paths = write_tables(made, out)
    if as_json:
        typer.echo(json.dumps(plain(made), indent=2))
    else:
        show(console, made)
    for problem in problems:
        say(console, f"Left out: {problem}", style="yellow")
    say(console, f"Written to {', '.join(map(str, paths))}.")
    _write_report(console, made, out)
    _refuse_failures(outcomes)


def _cells(
    given: Mapping[str, Any], methods: Sequence[str], seeds: str | None, grid: Mapping[str, Sequence[Any]]
) -> Sequence[Any]:
    """The runs that are asked for."""
    from potluck import algorithms
    from potluck.compare.grid import make_cells, parse_seeds, refuse_unknown, resolve
    from potluck.config import parse_assignment

    sets = [parse_assignment(text) for text in given["sets"] or []]
    kinds = [algorithms.find(method).name for method in methods]
    for key, _ in sets:
        refuse_unknown(key, kinds)

    def settings(method: str, assignments: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
        own = [(meant, value) for key, value in sets if (meant := resolve(key, method)) is not None]
        return settings_of(given, method, assignments, sets=own)

    return make_cells(methods, parse_seeds(seeds) if seeds is not None else None, grid, settings)


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
    """Run what is left to run; ends the command if it was stopped."""
    from potluck.compare.checking import check
    from potluck.compare.grid import parse_part
    from potluck.compare.running import default_jobs, run_places, signals_stop
    from potluck.compare.watching import view
    from potluck.compare.working import Stop
    from potluck.engines import find_device

    number, parts = parse_part(part) if part is not None else (1, 1)
    mine = list(places)[number - 1 :: parts]
    left = [place for place in mine if not place.finished]
    device = check(left) if left else find_device("cpu")
    side_by_side = jobs or default_jobs(len(mine), device)
    of_all = f" (of {len(places)} in all)" if parts > 1 else ""
    begun = sum(place.begun for place in left)
    how_far = f"{len(mine) - len(left)} done, {begun} begun, {len(left) - begun} to begin"
    say(console, f"{len(mine)} runs{of_all}: {how_far}; {side_by_side} side by side on {device}.")
    if not left:
        return {}
    stop = Stop()
    with view(console, left) as tell, signals_stop(stop, lambda text: say(console, text)):
        outcomes = run_places(left, side_by_side, tell, stop)
    for place, outcome in outcomes.items():
        if outcome.text or outcome.verdict == "busy":
            say(console, f"{place.cell}: {outcome.text or 'another process is running it; it is left to that one.'}",
                style="yellow")  # fmt: skip
    if stop.asked:
        say(console, f"Stopped. Go on with it by the same command; all that is done lies in {out}.")
        raise typer.Exit(130)
    return outcomes


def _refuse_failures(outcomes: Mapping[Place, Outcome]) -> None:
    failed = [str(place.cell) for place, outcome in outcomes.items() if outcome.verdict == "failed"]
    if failed:
        raise PotluckError(
            f"{len(failed)} of {len(outcomes)} runs failed, for the reasons above: {', '.join(failed)}. "
            "The table is of the others; the same command tries again."
        )


def _write_report(console: Console, comparison: Comparison, out: Path) -> None:
    """The place at which the page for a browser is written as well."""
