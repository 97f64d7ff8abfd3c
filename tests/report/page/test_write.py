"""The report as a whole: what is on the page, and what it is made of."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from potluck.data import sources
from potluck.errors import RunError
from potluck.report.figures.base import NoFigureError, Plot
from potluck.report.figures.boxes import box_plot
from potluck.report.figures.differences import differences_plot
from potluck.report.figures.opened import Opened
from potluck.report.figures.style import drawing
from potluck.report.page import write, write_report
from potluck.report.page.plots import Missing, plots
from potluck.results import Group, groups, read_runs
from report import real
from results import made
from run import tiny


@pytest.fixture(autouse=True)
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sources._SOURCES, tiny.NAME, tiny.load)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the small real runs."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sources._SOURCES, tiny.NAME, tiny.load)
        return write_report([real.folder()], out)


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the quickest figures, for tests of all that is around them."""

    def few(groups: Sequence[Group], *_: object, **__: object) -> tuple[list[Plot], list[Missing]]:
        made, missing = [], []
        for title, make in {"Accuracy over clients": box_plot, "Client by client": differences_plot}.items():
            try:
                made.append(make(groups))
            except NoFigureError as error:
                missing.append(Missing(title, str(error)))
        return made, missing

    monkeypatch.setattr(write, "plots", few)


class Reader(HTMLParser):
    """Collects texts, addresses and names, and whether tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.names: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href", "xlink:href", "action")]
        self.names += [value or "" for key, value in attrs if key == "id"]
        if tag not in ("meta", "link", "input", "br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_figure_is_there_and_in_files(page: Path) -> None:
    text = page.read_text()
    names = ("accuracy", "clients", "tradeoff", "differences", "partition", "tsne", "enhanced", "mixing")
    for name in (*names, "attribution", "gradient"):
        assert f'<figure id="{name}">' in text
    assert "Figures that are not here" not in text
    files = {path.name for path in (page.parent / "figures").iterdir()}
    linked = set(re.findall(r'href="figures/([^"]+)"', text))
    assert linked == files
    assert {Path(name).suffix for name in files} == {".pdf", ".png"}
    for path in (page.parent / "figures").iterdir():
        assert path.read_bytes().startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")


def test_the_page_needs_nothing_else(page: Path) -> None:
    reader = Reader()
    reader.feed(page.read_text())
    assert not reader.open
    assert len(set(reader.names)) == len(reader.names)
    for address in reader.addresses:
        assert address.startswith(("#", "data:", "figures/")), address
        if address.startswith("#"):
            assert address[1:] in reader.names
    # Addresses as text are names of formats alone.
    assert set(re.findall(r"https?://[^\s\"'<)]+", page.read_text())) == {"http://www.w3.org/1999/xlink"}
    assert "@import" not in page.read_text()


def test_the_headline_names_protocol_seeds_and_deviation(light: None, tmp_path: Path) -> None:
    for seed, last in enumerate((0.5, 0.7)):
        made.run(tmp_path / f"runs/a{seed}", seed=seed, accuracies=((0.1, 0.1), (last, last)))
    text = write_report([tmp_path / "runs"]).read_text()
    assert (tmp_path / "runs/report.html").is_file()
    assert "all clients, last round" in text
    assert "60.00 ± 14.14" in text
    assert "<td>0, 1</td>" in text


def test_unlike_samples_and_evaluation_after_training_are_said(light: None, tmp_path: Path) -> None:
    paths = [made.run(tmp_path / method, method) for method in ("fedavg", "kt-pfl")]
    text = write_report(paths).read_text()
    assert "FedAvg is evaluated after local training" in text
    assert "the same number of training samples under all methods: FedAvg: 80; KT-pFL: 50." in text


def test_one_run_holds_its_own_report(light: None, tmp_path: Path) -> None:
    run = made.run(tmp_path / "run")
    assert write_report([run]) == run / "report.html"


def test_runs_apart_are_reported_where_they_meet(light: None, tmp_path: Path) -> None:
    paths = [made.run(tmp_path / "x/a"), made.run(tmp_path / "y/b", "pfedes")]
    assert write_report(paths) == tmp_path.resolve() / "report.html"


def test_what_is_damaged_is_named_and_the_rest_reported(light: None, tmp_path: Path) -> None:
    good = made.run(tmp_path / "good")
    bad = made.run(tmp_path / "bad", "pfedes")
    (bad / "rounds.jsonl").write_text("{]\n")
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed/notes.txt").write_text("nothing")
    said: list[str] = []
    page = write_report([good, bad, tmp_path / "mixed", tmp_path / "gone"], tmp_path / "out", warn=said.append)
    text = page.read_text()
    assert "Standalone" in text
    assert len(said) == 3
    for name in ("bad", "mixed", "gone"):
        assert any(name in sentence for sentence in said)
        assert f"{tmp_path / name}" in text[text.index("Left out of everything above") :]


def test_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run to report.*gone: it does not exist"):
        write_report([tmp_path / "gone"])
    assert not list(tmp_path.iterdir())


def test_runs_that_differ_in_more_are_warned_of(light: None, tmp_path: Path) -> None:
    paths = [made.run(tmp_path / "a"), made.run(tmp_path / "b", "pfedes", settings={"epochs": 4}, seed=7)]
    said: list[str] = []
    text = write_report(paths, warn=said.append).read_text()
    assert any("differ in more than the method: epochs (1, 4)" in sentence for sentence in said)
    assert any("same seeds" in sentence for sentence in said)
    for sentence in said:
        assert sentence in text


def test_an_unfinished_run_is_shown_as_such(light: None, tmp_path: Path) -> None:
    said: list[str] = []
    text = write_report([made.run(tmp_path / "a", finished=False)], warn=said.append).read_text()
    assert "Not finished" in said[0]
    assert "not finished" in text


def test_why_figures_are_missing(tmp_path: Path) -> None:
    found = groups(read_runs([made.run(tmp_path / "a", "pfedes")])[0])
    with drawing():
        made_plots, missing = plots(found, Opened(), quick=False, tell=lambda _: None)
        _, asked = plots(found, Opened(), quick=True, tell=lambda _: None)
    assert [plot.name for plot in made_plots] == ["accuracy", "clients", "tradeoff", "partition"]
    reasons = {each.title: each.reason for each in missing}
    assert reasons["Representations"] == "a has no networks of clients in its folder"
    assert reasons["Client by client"] == "there is only one method to look at"
    assert "it was not recorded" in reasons["Gradient norm against O(1/T)"]
    assert {each.title: each.reason for each in asked}["Representations"].endswith("as asked")


def test_a_missing_figure_has_its_line_on_the_page(light: None, tmp_path: Path) -> None:
    text = write_report([made.run(tmp_path / "a")]).read_text()
    assert "<li>Client by client: there is only one method to look at.</li>" in text


def test_texts_are_escaped(light: None, tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>.npz"
    text = write_report([made.run(tmp_path / "a", settings={"data": evil})]).read_text()
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


@pytest.mark.parametrize("evil", ["</text><script>alert(1)</script>", '" onload="alert(1)', r"$\frac{$", "]]><a>&amp;"])
def test_names_in_figures_are_text_as_they_are(light: None, tmp_path: Path, evil: str) -> None:
    runs = [made.run(tmp_path / name, settings={"augmentation": name + evil}) for name in "ab"]
    text = write_report(runs, tmp_path / "out").read_text()
    assert "could not be made" not in text and text.count("<svg") == 2
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    assert text.count("<script") == 1 and 'onload="' not in re.sub(r">[^<]*<", "><", text)


def test_a_second_report_leaves_no_old_figures(light: None, tmp_path: Path) -> None:
    a, b = made.run(tmp_path / "a"), made.run(tmp_path / "b", "pfedes")
    write_report([a, b], tmp_path / "out")
    mine = [tmp_path / "out/figures" / name for name in ("mine.png", "accuracy.pdf", "clients-of-mine.png")]
    for path in mine:
        path.write_bytes(b"mine")
    assert (tmp_path / "out/figures/differences-standalone-vs-pfedes.png").exists()
    write_report([a], tmp_path / "out")
    assert not list((tmp_path / "out/figures").glob("differences*"))
    assert [path.read_bytes() for path in mine] == [b"mine"] * 3  # whatever they are called
    assert not list((tmp_path / "out").rglob("*.part"))


def test_nothing_outside_is_written_or_deleted(light: None, tmp_path: Path) -> None:
    run, outside = made.run(tmp_path / "run"), tmp_path / "outside"
    outside.mkdir()
    for name in ("clients.png", "holiday.png"):
        (outside / name).write_bytes(b"mine")
    (run / "report.html").write_text('<a href="figures/holiday.png">')
    (run / "figures").symlink_to(outside)
    before = tiny.tree(tmp_path)
    with pytest.raises(RunError, match="figures is a link, and has to be a folder"):
        write_report([run])
    assert tiny.tree(tmp_path) == before
    # Nor through a link within the folder.
    (run / "figures").unlink()
    (run / "figures").mkdir()
    (run / "figures/clients.pdf").symlink_to(outside / "clients.png")
    with pytest.raises(RunError, match=r"clients\.pdf is a link"):
        write_report([run])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("../page")])
def test_a_page_that_is_no_file_is_replaced(light: None, tmp_path: Path, make: Callable[[Path], object]) -> None:
    run = made.run(tmp_path / "run")
    (run / "figures").mkdir()
    (run / "figures/holiday.png").write_bytes(b"mine")
    (tmp_path / "page").write_text('<a href="figures/holiday.png">')
    make(run / "report.html")
    write_report([run])
    assert (run / "report.html").is_file() and not (run / "report.html").is_symlink()
    assert (run / "figures/holiday.png").read_bytes() == b"mine"  # for it was no page that named it


def test_the_same_runs_give_the_same_page(light: None, tmp_path: Path) -> None:
    run = made.run(tmp_path / "a")
    pages = [write_report([run], tmp_path / name) for name in ("x", "y")]
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert (tmp_path / "x/figures/clients.pdf").read_bytes() == (tmp_path / "y/figures/clients.pdf").read_bytes()


def test_the_command(light: None, potluck: tiny.Command, tmp_path: Path) -> None:
    run = shutil.copytree(real.folder() / "pfedafm", tmp_path / "run")
    ran = potluck("report", run, tmp_path / "gone", "--quick")
    assert ran.code == 0
    assert f"Written to {run / 'report.html'}" in ran.out
    assert "gone: it does not exist" in ran.out
    assert potluck("report", tmp_path / "gone").code == 2
    # A report within a run is no obstacle to showing or reporting it.
    assert potluck("show", run).code == 0
    assert potluck("report", run, "--quick").code == 0


def test_a_place_that_cannot_be_written(light: None, potluck: tiny.Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = potluck("report", made.run(tmp_path / "a"), "--quick", "--out", tmp_path / "file")
    assert said.code == 2
    assert "cannot write" in said.err


def test_no_name_steers_what_shows_the_page(light: None, tmp_path: Path) -> None:
    run = made.renamed(made.run(tmp_path / "a\x1b]0;a\x07", "fd"), "b\x9b31m")
    text = write_report([run, tmp_path / "c\x1bd"], tmp_path / "out", quick=True).read_text()
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert r"b\x9b31m" in text
    assert r"c\x1bd" in text


def test_a_setting_that_is_a_date_is_shown(light: None, tmp_path: Path) -> None:
    config = made.run(tmp_path / "run") / "config.toml"
    config.write_text(f"day = 2024-01-01\n{config.read_text()}")
    assert "2024-01-01" in write_report([tmp_path / "run"], tmp_path / "out", quick=True).read_text()


@pytest.mark.parametrize("content", ["[" * 100_000, "{}" + " " * (1 << 20)])
def test_a_damaged_environment_is_said(light: None, tmp_path: Path, content: str) -> None:
    run = made.run(tmp_path / "run")
    (run / "environment.json").write_text(content)
    told: list[str] = []
    text = write_report([run], tmp_path / "out", quick=True, warn=told.append).read_text()
    assert told == [f"environment.json is damaged, and what it ran on is not known: {run}."]
    assert told[0] in text
