"""What is built and installed works by itself, away from the checkout it was built in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import potluck

SOURCE = Path(potluck.__file__).parent
CHECKOUT = Path(__file__).parents[1]


def _pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--no-input"]
    done = subprocess.run([*command, *map(str, arguments)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, CHECKOUT)
    (made,) = folder.iterdir()
    assert made.name == f"potluck_fl-{potluck.__version__}-py3-none-any.whl"
    return made


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = CHECKOUT / "src" / "potluck"
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert held == {path.relative_to(package.parent).as_posix() for path in files}
    assert {"potluck/py.typed", "potluck/data/files/fashion-mnist-10k/LICENSE"} <= held


def test_it_runs_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "target", tmp_path / "elsewhere"
    _pip("install", "--no-deps", "--no-index", "--target", target, wheel)
    elsewhere.mkdir()
    # What is on PYTHONPATH comes before what is installed, an editable installation of the checkout included.
    environment = {**os.environ, "PYTHONPATH": str(target), "OMP_NUM_THREADS": "1"}
    environment.pop("POTLUCK_DATA", None)

    def run(*command: object) -> str:
        return subprocess.check_output([*map(str, command)], cwd=elsewhere, env=environment, text=True)

    where = run(sys.executable, "-c", "import potluck; print(potluck.__file__)")
    assert Path(where.rstrip()) == target / "potluck/__init__.py"
    # A hundred clients share the carried data set; one of them trains.
    arguments = ("--clients", 100, "--fraction", 0.01, "--models", "cnn-5", "--rounds", 1, "--json")
    summary = json.loads(run(target / "bin/potluck", "run", "standalone", *arguments))
    assert (summary["data"], summary["rounds"], len(summary["client_accuracy"])) == ("fashion-mnist-10k", 1, 100)
    assert [path.name for path in elsewhere.iterdir()] == ["runs"]
