"""What the documents show works as shown."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from potluck.algorithms import find
from potluck.testing import check_algorithm

ROOT = Path(__file__).parents[1]


def code_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def test_the_algorithm_in_the_documents_conforms() -> None:
    scope: dict[str, Any] = {}
    exec(code_blocks("docs/algorithms.md")[0], scope)  # noqa: S102 (our own document)
    assert find("shared-head") is scope["SharedHead"]
    check_algorithm(scope["SharedHead"]())


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples/own_models.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["site 0", "site 1", "site 2", "travelled", "site 2 sees"]
    assert all(float(line.split()[2]) > 80 for line in lines[:3])
