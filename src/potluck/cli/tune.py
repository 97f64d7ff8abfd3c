"""The command ``potluck tune``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.carrying import carry_out
from potluck.cli.common import Json, console_for, say, say_json
from potluck.cli.options import METHODS, run_options, settings_by_method
from potluck.errors import BusyRunError, PotluckError
from potluck.messages import command

if TYPE_CHECKING:
    from potluck.compare.places import Place
    from potluck.tune.searching import Search
    from potluck.tune.space import Space

app = typer.Typer()


@app.command()
@run_options
def tune(
    given: dict[str, Any],
    methods: Annotated[list[str], typer.Argument(help=f"The methods: {METHODS}")],
    trials: Annotated[
        int, typer.Option(min=1, help="Trials of each method, the first with its settings as they are.")
    ] = 20,
    spaces: Annotated[
        list[str] | None,
        typer.Option(
            "--space", metavar="KEY=LOW..HIGH|A,B", help="Where to look for a setting; repeatable. Else as declared."
        ),
    ] = None,
    seeds: Annotated[str, typer.Option(help="A trial is the mean over these; the first seeds the search, too.")] = "0",
    jobs: Annotated[int | None, typer.Option(min=1, help=r"Runs side by side. \[default: as in compare]")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the trials.")] = Path("runs/tune"),
    as_json: Json = False,
) -> None:
    """Find settings of methods on validation data, with as many trials for each.

    Test data have no part in it. A method's own settings that are
    numbers are looked for, in the ranges that 'potluck algorithms NAME'
    shows and around the values of its paper; what --set gives is left
    alone. Every trial is an ordinary run, in OUT/<method>/trial-<n>;
    stopped or killed, the same command goes on where it was. It ends
    with the best settings, and the command that compares methods by them.

    Examples:
      potluck tune fedproto pfedes --trials 20 --rounds 30

      potluck tune standalone pfedes --space learning_rate=0.001..0.1
    """
    from potluck.algorithms import find
    from potluck.compare.checking import check
    from potluck.compare.grid import parse_seeds
    from potluck.compare.running import default_jobs
    from potluck.config import make_config
    from potluck.experiment import warnings_afterwards
    from potluck.tune.proposing import load_optuna
    from potluck.tune.searching import refuse_without_validation, search
    from potluck.tune.telling import plain, table

    load_optuna()
    console = console_for(as_json)
    kinds = list(dict.fromkeys(find(method).name for method in methods))
    settings, chosen = settings_by_method(given, kinds), parse_seeds(seeds)
    where = _spaces(given, kinds, spaces or [], settings(kinds[0], []))
    first = [make_config(settings(kind, [("seed", chosen[0])])) for kind in kinds]
    with warnings_afterwards():
        refuse_without_validation(first[0])
        device = check(first)
    side_by_side = jobs or default_jobs(len(kinds) * len(chosen), device)

    def run(places: Sequence[Place], heading: str) -> None:
        if not all(each.finished for each in places):
            say(console, f"{heading}.")
            outcomes = carry_out(console, places, side_by_side, out, score="validation_accuracy")
            if any(outcome.verdict == "busy" for outcome in outcomes.values()):
                # What to try next depends on how this one ends.
                raise BusyRunError(f"another process is tuning in {out}: wait for it, or give another --out.")

    found = search(where, trials, chosen, settings, out, run, lambda text: say(console, text, style="yellow"))
    compare = _command(found, given, kinds, chosen)
    if as_json:
        say_json({**plain(found), "compare": compare})
    else:
        console.print(table(found))
        say(console, "Compare them by these settings, with seeds that were not searched on:")
        say(console, compare)
    failed = [each.method for each in found if each.best is None]
    if failed:
        raise PotluckError(f"every trial of {', '.join(failed)} failed, for the reasons above.")


def _spaces(
    given: Mapping[str, Any], kinds: Sequence[str], texts: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, Space]:
    """For each method where to look: as declared, but for what is asked for, and what --set has decided."""
    from potluck.compare.grid import refuse_unknown, resolve
    from potluck.config import RunConfig
    from potluck.tune.space import declared, parse_spaces

    asked = parse_spaces(texts)
    for key in asked:
        refuse_unknown(key, kinds)
    fixed = [text.partition("=")[0].strip() for text in given["sets"] or []]
    rate = settings.get("learning_rate", RunConfig.model_fields["learning_rate"].default)
    found: dict[str, Space] = {}
    for kind in kinds:
        space = declared(kind, float(rate))
        for key in fixed:
            space.pop(resolve(key, kind) or "", None)
        found[kind] = space | {meant: each for key, each in asked.items() if (meant := resolve(key, kind)) is not None}
    return found


def _command(found: Sequence[Search], given: Mapping[str, Any], kinds: Sequence[str], searched: Sequence[int]) -> str:
    """The comparison by the best settings, ready to be copied, with other seeds than those that were searched on.

    Where the seed draws the split, a validation sample of one seed may be a test sample of another.
    """
    words: list[str | Path] = ["compare", *kinds]
    for name, value in given.items():
        if name not in ("config", "sets") and value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--config", given["config"]] if given["config"] else []
    for text in given["sets"] or []:
        words += ["--set", text]
    for each in found:
        for key, value in (each.best.values if each.best else {}).items():
            if value is not None:
                words += ["--set", f"{each.method}.{key.removeprefix('algorithm.')}={value}"]
    others = [seed for seed in range(len(searched) + 3) if seed not in searched][:3]
    return command(*words, "--seeds", ",".join(map(str, others)))
