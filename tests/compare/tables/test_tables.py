"""One comparison in all its forms: the same numbers, and nothing that breaks the form."""

from __future__ import annotations

import csv as format
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from potluck.compare.comparing import Comparison, compare_runs
from potluck.compare.tables import csv, latex, markdown, plain, show, write_tables
from potluck.compare.tables.latex import _escape
from potluck.results import read_runs
from results import made

NASTY = r"a_b&c%d$e#f{g}h~i^j\k<l>m|n*o"


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    """Three methods, one of them with nasty settings that never reaches the target."""
    for seed in (0, 1):
        by = 0.01 * seed
        made.run(tmp_path / f"a{seed}", "standalone", seed=seed, accuracies=((0.7 + by, 0.8 + by, 0.9),))
        made.run(tmp_path / f"b{seed}", "fd", seed=seed, accuracies=((0.8 + by, 0.92, 0.9),))
    made.run(tmp_path / "c", "pfedes", seed=0, accuracies=((0.1, 0.1, 0.2),), settings={"augmentation": NASTY})
    made.run(tmp_path / "d", "pfedes", seed=0, accuracies=((0.1, 0.1, 0.2),))
    runs, problems = read_runs([tmp_path])
    assert problems == []
    return compare_runs(runs)


def test_terminal(comparison: Comparison) -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    show(console, comparison)
    text = console.export_text()
    assert "Test accuracy (%), all clients, last round" in text
    assert re.search(r"FD +87.50 ± 0.24 +\+7.17", text)
    assert re.search(r"Standalone +80.33 ± 0.47 +baseline", text)
    assert "to 80 %" in text
    assert "The runs differ in more than what is compared: augmentation" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_every_form_says_over_what_each_number_is_taken(tmp_path: Path, seeds: int) -> None:
    generator = np.random.default_rng(0)
    for seed in range(seeds):
        alone = generator.uniform(0.5, 0.9, 12)
        for method, by in (("standalone", 0.0), ("fedavg", 0.02), ("lg-fedavg", 0.05)):
            accuracies = [(alone + by + generator.normal(0, 0.01, 12)).tolist()]
            made.run(tmp_path / f"{method}{seed}", method, seed=seed, accuracies=accuracies)
    found = compare_runs(read_runs([tmp_path])[0])
    console = Console(width=80, file=io.StringIO(), record=True)
    show(console, found)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert ("95 % interval" in text) == (seeds == 3) == bool(re.search(r"\[\d+\.\d\d, \d+\.\d\d\]", text))
    assert ("mean ± sd" in text) == (seeds > 1)
    for form in (" ".join(text.split()), markdown(found), latex(found).replace("\\%", "%").replace("$\\pm$", "±")):
        assert ("mean over clients and seeds ± standard deviation over seeds" in form) == (seeds > 1)
        assert ("No interval: it takes 3 seeds." in form) == (seeds < 3)
        assert ("bootstrap over seeds, and over the clients of each" in form) == (seeds == 3)
        assert ("paired over clients, each averaged over seeds; p by" in form) == (seeds > 1)
        assert "over clients, corrected for 2 comparisons (Holm)" in form
        assert "FedAvg is evaluated after local training" in form
        assert "samples" not in form
        assert "Difference from Standalone" in form
        assert "lg-fedavg" not in form and "lg_fedavg" not in form and "LG-FedAvg" in form
    for row in plain(found)["methods"]:
        assert ((row["accuracy_low"], row["accuracy_high"]) == (None, None)) == (seeds < 3)


def test_unequal_numbers_of_samples_stand_beside_the_row(tmp_path: Path) -> None:
    made.run(tmp_path / "a", "standalone")
    made.run(tmp_path / "b", "kt-pfl")
    found = compare_runs(read_runs([tmp_path])[0])
    assert [row.samples for row in found.rows] == [(80, 80), (50, 50)]
    console = Console(width=80, file=io.StringIO(), record=True)
    show(console, found)
    text = console.export_text()
    assert re.search(r"Standalone .*\n 1 seed .*\n 80 samples .*\n KT-pFL .*\n 1 seed .*\n 50 samples ", text)
    assert "| KT-pFL (50 samples) |" in markdown(found) and "KT-pFL (50 samples) &" in latex(found)
    for form in (" ".join(text.split()), markdown(found), latex(found)):
        assert "They differ between methods." in form
    assert "KT-pFL and Standalone differ in set" in found.warnings[-1]
    assert [row["fewest_samples"] for row in plain(found)["methods"]] == [80, 50]
    made.run(tmp_path / "a1", "standalone", settings={"set_aside": "public"})
    (tmp_path / "a").rename(tmp_path / "a.away")
    (tmp_path / "a.away/config.toml").unlink()
    equal = compare_runs(read_runs([tmp_path])[0])
    assert equal.warnings == [] and not equal.unequal
    assert equal.rows[1].difference is not None
    assert "1,000 training samples are public, set aside under every method" in markdown(equal)


def test_markdown(comparison: Comparison) -> None:
    rows = [line for line in markdown(comparison).splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in rows]
    assert {len(each) for each in cells} == {11}
    assert [cell.strip() for cell in cells[0][7:9]] == ["FLOP", "of the server"]
    assert [cell.strip() for cell in cells[3][7:9]] == ["1.5 k", "1.8 k"]
    assert cells[3][2].strip() == "**87.50 ± 0.24**"
    assert [cell.strip() for cell in cells[-1][-2:]] == ["-", "-"]
    assert cells[0][-1].strip() == "FLOP to 80 %"


def test_csv_and_json(comparison: Comparison) -> None:
    rows = list(format.DictReader(io.StringIO(csv(comparison))))
    assert [row["method"] for row in rows][:2] == ["standalone", "fd"]
    assert float(rows[1]["accuracy"]) == comparison.rows[1].accuracy.mean
    assert rows[1]["seeds"] == "0 1"
    assert [float(rows[1][name]) for name in ("flops", "server_flops", "server_flops_to_target")] == [1500, 1800, 1800]
    assert rows[2]["accuracy_deviation"] == rows[2]["bytes_to_target"] == ""
    assert NASTY in rows[2]["method"] + rows[3]["method"]
    values = json.loads(json.dumps(plain(comparison), allow_nan=False))
    assert values["methods"][1]["p_holm"] == comparison.rows[1].p
    assert values["methods"][1]["seeds"] == [0, 1]
    assert (values["baseline"], values["target"], values["protocol"]) == ("standalone", 0.8, "all_last")


def test_latex_is_well_formed(comparison: Comparison) -> None:
    text = latex(comparison)
    code = [line for line in text.splitlines() if not line.startswith("%")]
    bare = re.sub(r"\\[&%$#_{}\\]", "", "\n".join(code))  # without what is escaped, and line breaks
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not set(re.sub(r"\$[^$]*\$", "", bare)) & set('#_^~<>|%±"')  # which would break it, or be set wrongly
    known = {"begin", "end", "centering", "caption", "toprule", "midrule", "bottomrule", "cmidrule", "multicolumn"}
    assert set(re.findall(r"\\([a-zA-Z]+)", bare)) <= known | {
        *(
            "scriptsize",
            "setlength",
            "tabcolsep",
            "textbf",
            "pm",
            "textbackslash",
            "textasciitilde",
            "textasciicircum",
        )
    }
    depth: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", bare):
        if kind == "begin":
            depth.append(name)
        else:
            assert depth.pop() == name
    assert depth == []
    rows = [line for line in code if line.endswith(r"\\")]
    spans = [
        len(re.findall(r"(?<!\\)&", row)) + 1 + sum(int(count) - 1 for count in re.findall(r"\\multicolumn{(\d)}", row))
        for row in rows
    ]
    assert set(spans) == {10}
    assert r"\textbf{87.50 $\pm$ 0.24}" in text
    assert rows[-1].count("--") == 3  # no interval of one seed, no costs to a target that was not reached
    assert "$-$" in rows[-1]


def test_latex_sets_every_letter_as_it_is() -> None:
    assert _escape(NASTY) == (
        r"a\_b\&c\%d\$e\#f\{g\}h\textasciitilde{}i\textasciicircum{}j\textbackslash{}k$<$l$>$m$|$n*o"
    )
    assert _escape("a\nb") == "a?b"


def test_files_are_written_at_once(comparison: Comparison, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/comparison.md").write_text("old")
    paths = write_tables(comparison, tmp_path / "out")
    assert sorted(path.name for path in paths) == ["comparison.csv", "comparison.md", "comparison.tex"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in paths)
    assert (tmp_path / "out/comparison.md").read_text() == markdown(comparison)


def test_nothing_to_say(tmp_path: Path) -> None:
    runs, _ = read_runs([made.run(tmp_path / "a", "fd", accuracies=((None, None),))])
    empty = compare_runs(runs)
    assert empty.target is None
    for text in (markdown(empty), latex(empty), csv(empty)):
        assert "nan" not in text
    assert "| FD | 1 | - | - | baseline | - |" in markdown(empty)


def test_a_round_chosen_on_test_data_is_named(tmp_path: Path) -> None:
    runs, _ = read_runs([made.run(tmp_path / "a", "fd")])
    for protocol, told in (("papers", True), ("all-last", False)):
        found = compare_runs(runs, protocol=protocol)
        console = Console(width=200, file=io.StringIO(), record=True)
        show(console, found)
        for text in (markdown(found), latex(found), console.export_text()):
            assert ("chosen by test accuracy" in text) == told


LINKS = (
    "[a](javascript:b)",
    "![a](b.png)",
    "<http:a>",
    "[a]: http:b",
    "`a`",
    "# a",
    "- a",
    "1. a",
    "> a",
    "\\\\[a](b)",
)


@pytest.mark.parametrize("name", LINKS)
def test_no_name_is_alive_in_markdown(tmp_path: Path, name: str) -> None:
    made.renamed(made.run(tmp_path / "a", "fd"), name)
    made.run(tmp_path / "b", settings={"data": f"{name}.npz"})
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown(compare_runs(read_runs([tmp_path])[0])))
    inner = [child for token in tokens for child in token.children or []]
    assert {child.type for child in inner} <= {"text", "strong_open", "strong_close"}
    assert not [token for token in tokens if token.type in ("heading_open", "blockquote_open", "ordered_list_open")]
    assert sum(token.type == "tr_open" for token in tokens) == 3
    assert any(name in token.content for token in inner)


def test_addresses_are_no_links_in_markdown(tmp_path: Path) -> None:
    made.renamed(made.run(tmp_path / "a"), "http://a.b www.c.d e@f.g")
    assert r"http\://a.b www\.c.d e\@f.g" in markdown(compare_runs(read_runs([tmp_path])[0]))


@pytest.mark.parametrize("name", ["=1+1", "+1+1", "-1+1", "@SUM(1)"])
def test_no_name_is_a_formula(tmp_path: Path, name: str) -> None:
    made.renamed(made.run(tmp_path / "a"), name)
    (row,) = format.DictReader(io.StringIO(csv(compare_runs(read_runs([tmp_path])[0]))))
    assert row["method"] == row["algorithm"] == row["baseline"] == f"'{name}"


def test_names_that_would_be_read_as_something_else(tmp_path: Path) -> None:
    for name in ("[1em]", "*"):
        made.renamed(made.run(tmp_path / name, "fd"), f"{name}<b>\nx")
    found = compare_runs(read_runs([tmp_path])[0])
    assert "    {}*$<$b" in latex(found) and "    {}[1em]" in latex(found)
    rows = [line for line in markdown(found).splitlines() if line.startswith("|")]
    assert len(rows) == 4 and "<b>" not in markdown(found)
