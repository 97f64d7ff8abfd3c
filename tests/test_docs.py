"""What the documents show works as shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from potluck import algorithms
from potluck.algorithms import algorithm, find, names
from potluck.data import augment, partition, partitions, sources
from potluck.testing import check_algorithm
from potluck.testing.conformance import ConformanceError

ROOT = Path(__file__).parents[1]


def code_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def test_the_algorithm_in_the_documents_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "_KNOWN", dict(algorithms._KNOWN))  # no other test shall know of the example
    scope: dict[str, Any] = {}
    exec(code_blocks("docs/algorithms.md")[0], scope)  # noqa: S102 (our own document)
    assert find("shared-head") is scope["SharedHead"]
    check_algorithm(scope["SharedHead"]())


def test_the_drawing_algorithm_in_the_documents_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(algorithms, "_KNOWN", dict(algorithms._KNOWN))
    first, *_, drawing = code_blocks("docs/algorithms.md")
    scope: dict[str, Any] = {}
    exec(first + drawing, scope)  # noqa: S102 (our own document)
    check_algorithm(scope["SparseHead"]())
    with pytest.raises(ConformanceError, match=r"algorithm\.kept: 9 is more than the 8 dimensions there are"):
        check_algorithm(scope["SparseHead"](kept=9))


def test_the_documents_name_all_algorithms() -> None:
    rows = re.findall(
        r"^\| `([a-z-]+)` \| (.*?) \| (.*?) \| (.*?) \|(.*?)\|$", (ROOT / "docs/methods.md").read_text(), re.M
    )
    ours = {name: algorithm(name) for name in names()}
    assert sorted(row[0] for row in rows) == sorted(ours)
    for name, *said in rows:
        method = ours[name]
        assert [part.strip() for part in said] == [
            method.venue,
            method.down,
            method.up,
            ", ".join(sorted(method.needs)),
        ]


def test_the_documents_name_all_data_sets_partitions_and_augmentations() -> None:
    _, *sections = (ROOT / "docs/data.md").read_text().split("\n## ")
    tables = {
        section.splitlines()[0]: re.findall(r"^\| `([a-z][a-z0-9-]*)", section, flags=re.MULTILINE)
        for section in sections
    }
    assert sorted(tables["Data sets by name"]) == sources.names()
    assert sorted(tables["Partitions"]) == partitions.names()
    assert sorted(tables["Augmentation"]) == augment.names()


def test_the_documents_deal_data() -> None:
    scope: dict[str, Any] = {}
    exec(code_blocks("docs/data.md")[0], scope)  # noqa: S102 (our own document)
    assert len(set(scope["source"].y[scope["first"]].tolist())) == 2
    for line in re.findall(
        r"potluck data show fashion-mnist-10k (--partition .*)", (ROOT / "docs/data.md").read_text()
    ):
        arguments, *comment = line.split("#")
        _, spec, *clients = arguments.split()
        number = int(clients[1]) if clients else 10
        dealt = partition(spec, scope["labels"], scope["source"].classes, number, key=0)
        sizes = {len(rows) for rows in dealt["train"]}
        said = re.search(r"(\d+) (?:each|of each of 2)", comment[0]) if comment else None
        assert said is None or sizes == {int(said[1]) * (2 if "of 2 classes" in comment[0] else 1)}


def test_links_lead_somewhere() -> None:
    for document in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
            assert target.startswith("https://") or (document.parent / target).exists(), (document.name, target)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/own_models.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["site 0", "site 1", "site 2", "travelled", "site 2 sees"]
    assert all(float(line.split()[2]) > 80 for line in lines[:3])
