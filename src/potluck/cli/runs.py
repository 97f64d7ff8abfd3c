"""The commands ``potluck run``, ``resume`` and ``show``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.common import Json, console_for, say, say_json
from potluck.cli.options import METHODS, run_options, settings_of
from potluck.cli.stopping import stopping
from potluck.errors import ChangedRunError, PotluckError
from potluck.messages import command, visible

if TYPE_CHECKING:
    from potluck.config import RunConfig
    from potluck.federation import Federation
    from potluck.watching import Watch

TensorBoardFlag = Annotated[
    bool, typer.Option("--tensorboard", help="Write the run for TensorBoard as it goes, into its folder.")
]

app = typer.Typer()


@app.command()
@run_options
def run(
    given: dict[str, Any],
    algorithm: Annotated[str | None, typer.Argument(help=f"The method: {METHODS}")] = None,
    seed: Annotated[int | None, typer.Option(help=r"The one seed of every draw. \[default: 0]")] = None,
    out: Annotated[Path | None, typer.Option(help=r"Folder of the run. \[default: runs/<method>-<time>]")] = None,
    tensorboard: TensorBoardFlag = False,
    as_json: Json = False,
) -> None:
    """Run an experiment.

    Flags win over --set, --set over the file, the file over defaults.
    For --set: epochs, batch_size, learning_rate, optimizer, momentum,
    weight_decay, clip_norm, schedule, betas, augmentation (release,
    two-views or none), public, set_aside, assignment, initial_weights,
    precision, evaluate_every, checkpoint_every, early_stop, measure; a
    method's own settings are under 'algorithm.'. To see which client
    gets what: potluck data show.

    Examples:
      potluck run pfedes

      potluck run pfedes --data cifar-10 --clients 100 --fraction 0.1

      potluck run pfedes --set algorithm.mu=0.3 --set schedule=cosine
    """
    from potluck.config import make_config
    from potluck.experiment import make_federation
    from potluck.run.folder import refuse_existing

    made = make_config(settings_of(given, algorithm, seed=seed))
    path = out or Path("runs") / f"{made.algorithm['name']}-{datetime.now():%Y%m%d-%H%M%S}"
    # Said before anything is loaded; making the folder checks again.
    refuse_existing(path)
    _go(made, make_federation(made, path), path, as_json, _watchers(tensorboard, path))


@app.command()
def resume(
    path: Annotated[Path, typer.Argument(help="Folder of a run that was stopped or killed.")],
    data_dir: Annotated[str | None, typer.Option(help="Folder with data sets, if they have moved.")] = None,
    tensorboard: TensorBoardFlag = False,
    as_json: Json = False,
) -> None:
    """Go on with a run from its last checkpoint, to the same result as if it had never stopped."""
    from potluck.experiment import make_federation, read_config
    from potluck.run.folder import RunFolder

    folder = RunFolder.open(path)
    folder.refuse_finished()
    watchers = _watchers(tensorboard, path)
    config = read_config(folder)
    if data_dir is not None:
        config = config.model_copy(update={"data_dir": data_dir})
    federation = make_federation(config, path)
    problems = federation.restore()
    console = console_for(as_json)
    for problem in problems:
        say(console, problem, style="yellow")
    done = f"after round {federation.rounds} of {config.rounds}" if federation.rounds else "from the beginning"
    say(console, f"Going on with {path} {done}.")
    _go(config, federation, path, as_json, watchers)


@app.command()
def show(
    paths: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    as_json: Json = False,
) -> None:
    """Show the results of one or more runs side by side."""
    from potluck.report.terminal import client_table, result_table
    from potluck.results import read_run
    from potluck.run.folder import RunFolder

    runs = {str(path): read_run(path) for path in paths}
    first = runs[str(paths[0])].summary
    if as_json:
        say_json(first if len(paths) == 1 else {name: run.summary for name, run in runs.items()})
        return
    console = console_for()
    shown = {visible(name): run for name, run in runs.items()}
    console.print(
        result_table(
            {name: run.summary for name, run in shown.items()}, {name: run.seconds for name, run in shown.items()}
        )
    )
    for name, run in runs.items():
        if not run.finished:
            say(console, f"{name} is not finished. {RunFolder.open(run.path).going_on}")
    if len(paths) == 1:
        console.print(client_table(first["client_accuracy"]))


def _watchers(tensorboard: bool, path: Path) -> list[Watch]:
    """Who hears of the run, besides the person in front of the terminal."""
    if not tensorboard:
        return []
    from potluck.run.files import refuse_links
    from potluck.watching.tensorboard import FOLDER, TensorBoard

    refuse_links(path / FOLDER)  # a folder that came from others may hold one that leads out of it
    return [TensorBoard(path / FOLDER)]


def _go(config: RunConfig, federation: Federation, path: Path, as_json: bool, watchers: Sequence[Watch]) -> None:
    """Run to the end, showing how it goes, and say where everything is."""
    from potluck.errors import InterruptedRunError
    from potluck.report.progress import progress
    from potluck.report.terminal import announce, result_table

    console = console_for(as_json)
    announce(console, config, federation)
    try:
        with stopping(lambda: _stop(federation)), progress(console, config.rounds, federation.rounds) as watch:
            history = federation.run(config.rounds, watch=[watch, *watchers])
    except (InterruptedRunError, KeyboardInterrupt) as stopped:
        say(console, f"{str(stopped).capitalize() or 'Stopped at once.'} Go on with it: {command('resume', path)}")
        raise typer.Exit(130) from stopped
    except PotluckError as error:
        gone = isinstance(error, ChangedRunError)
        kept = f" The rounds before are kept: {command('show', path)}" if federation.rounds and not gone else ""
        raise type(error)(f"{error}{kept}") from error
    summary = federation.summary
    if as_json:
        say_json(summary)
        return
    seconds = sum(record["seconds"] for record in history.rounds)
    name = visible(str(path))
    console.print(result_table({name: summary}, {name: seconds}))
    if federation.stopped_early:
        stop = summary["early_stop"]
        say(
            console,
            f"Stopped early after round {federation.rounds} of {config.rounds}: validation accuracy was best in round "
            f"{stop['best_round']}, and not better in {stop['patience']} evaluations since.",
        )
    say(console, f"Written to {path}. See every client: {command('show', path)}")


def _stop(federation: Federation) -> None:
    federation.stop()
    typer.echo("\nStopping after the step that is running ...", err=True)
