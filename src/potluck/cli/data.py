"""The commands ``potluck data list``, ``fetch``, ``check`` and ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.common import DataDir, console_for, say

app = typer.Typer(
    name="data",
    help="Data sets: which there are, get them, check them, look at them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="A data set: see 'potluck data list'.")]
NameOrPath = Annotated[str, typer.Argument(help="A data set, a folder of images (with a slash in it) or an .npz file.")]


@app.command("list")
def list_(data_dir: DataDir = None) -> None:
    """List the data sets that can be used by name, and where they are."""
    from potluck.data import sources
    from potluck.data.sources.locate import locate
    from potluck.errors import DataError
    from potluck.report.data import list_table

    rows: list[tuple[str, str, str | None, int | None]] = []
    for name in sources.names():
        published = sources.published(name)
        if published is None:
            rows.append((name, sources.fashion_mnist_10k.ABOUT, "carried by Potluck", None))
            continue
        try:
            where = str(locate(name, published.forms, data_dir).path)
        except DataError:
            where = None
        to_fetch = sum(download.size for download in published.forms[0].downloads)
        rows.append((name, published.about, where, to_fetch))
    console_for().print(list_table(rows))


@app.command()
def fetch(name: Name, data_dir: DataDir = None) -> None:
    """Get a data set from its authors' own site, into the folder with data sets.

    A download that was interrupted goes on where it ended, and is checked
    against the published checksum.
    """
    from potluck.data.fetch import command
    from potluck.data.fetch import fetch as get
    from potluck.report.progress import downloads

    console = console_for()
    try:
        with downloads(console) as watch:
            folder = get(name, data_dir, watch)
    except KeyboardInterrupt:
        say(console, f"Stopped; what has arrived is kept. Go on with it: {command(name, data_dir)}")
        raise typer.Exit(130) from None
    say(console, f"{name} is in {folder}, as published.")


@app.command()
def check(name: NameOrPath, data_dir: DataDir = None) -> None:
    """Compare the files of a data set with the published ones."""
    from potluck.data.check import check as look
    from potluck.errors import DataError

    console = console_for()
    report = look(name, data_dir)
    say(console, f"{name} in {report.where}")
    for finding in report.findings:
        verdict = "wrong" if finding.problem else "good "
        say(console, f"  {verdict}  {finding.file}: {finding.problem or finding.note}")
    if report.problems or report.source is None:
        raise DataError(f"{len(report.problems)} of {len(report.findings)} files of {name} are not as they should be.")
    source = report.source
    shape = "x".join(map(str, source.shape))
    say(console, f"All is well: {len(source.y):,} images of {shape}, {source.classes} classes.")


@app.command()
def show(
    name: NameOrPath,
    data_dir: DataDir = None,
    split: Annotated[str | None, typer.Option(help=r"release, official, 8:1:1. \[default: the data set's own]")] = None,
    partition: Annotated[str, typer.Option(help="How clients share the data.")] = "pathological:2",
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 10,
    seed: Annotated[int, typer.Option(help="The seed of the split and the partition.")] = 0,
    out: Annotated[Path | None, typer.Option(help=r"Folder for pictures. \[default: NAME-pictures]")] = None,
) -> None:
    """Print and draw a data set: its classes, some images, and which clients get what in a run."""
    from potluck.config import make_config
    from potluck.data import sources
    from potluck.experiment import share_out
    from potluck.report.data import balance_table, class_counts, client_table, overview
    from potluck.report.pictures import balance_picture, partition_picture, sample_sheet, write_picture

    settings = {"data": name, "data_dir": data_dir, "split": split, "partition": partition, "clients": clients}
    given = {key: value for key, value in settings.items() if value is not None}
    config = make_config({"algorithm": "standalone", "seed": seed, **given})
    source = sources.load(name, data_dir)
    counts = class_counts(source, share_out(config, source).clients)
    balance = {pool: table.sum(0) for pool, table in counts.items()}
    console = console_for()
    console.print(overview(source, balance), balance_table(balance, source.class_names))
    console.print(client_table(counts, source.class_names))
    named, dealt = f"{source.name}, split {split or source.default_split}", f"{source.name}, {partition}, seed {seed}"
    pictures = {
        "samples": sample_sheet(source, source.name),
        "classes": balance_picture(balance, source.class_names, named),
        "partition": partition_picture(counts["train"], source.class_names, dealt),
    }
    folder = out or Path(f"{source.name}-pictures")
    for title, picture in pictures.items():
        write_picture(folder / f"{title}.png", picture)
    say(console, f"Drawn in {folder}: {', '.join(f'{title}.png' for title in pictures)}.")
