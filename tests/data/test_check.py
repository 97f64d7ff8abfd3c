"""Whether files are the published ones."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.sources import made
from potluck.data import sources
from potluck.data.check import check
from potluck.data.sources import cifar10, emnist_letters, mnist
from potluck.data.sources.published import Download, Form
from potluck.errors import DataError
from run import tiny


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small MNIST, as if it had been published."""
    contents = made.idx_contents(mnist.PUBLISHED.forms[0])
    published = replace(mnist.PUBLISHED, forms=(made.retold(mnist.PUBLISHED.forms[0], contents),))
    monkeypatch.setattr(mnist, "PUBLISHED", published)
    monkeypatch.setitem(sources._PUBLISHED, "mnist", published)
    return made.folder(tmp_path / "mnist", published.forms[0], contents)


def test_good_files(digits: Path) -> None:
    report = check("mnist", digits.parent)
    assert (report.where, report.problems) == (str(digits), [])
    assert [finding.file for finding in report.findings] == list(mnist.PUBLISHED.forms[0].files)
    assert all("bytes unpacked, md5 " in finding.note for finding in report.findings)
    assert report.source is not None
    assert len(report.source.y) == 17


def test_every_problem_is_found_at_once(digits: Path) -> None:
    (digits / "train-labels-idx1-ubyte.gz").unlink()
    (digits / "t10k-images-idx3-ubyte.gz").write_bytes(b"<html>")
    report = check("mnist", digits.parent)
    assert report.source is None
    problems = {finding.file: finding.problem for finding in report.problems}
    assert list(problems) == ["train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz"]
    assert "is missing. Put the four files of" in str(problems["train-labels-idx1-ubyte.gz"])
    assert "was not made by gzip" in str(problems["t10k-images-idx3-ubyte.gz"])


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def archive(name: str, form: Form, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the archive at ``path`` be the published one."""
    content = path.read_bytes()
    download = Download(form.archives[0], ("http://here",), len(content), _md5(content))
    published = replace(made.FORMS[name], forms=(replace(form, downloads=(download,)),))
    monkeypatch.setitem(sources._PUBLISHED, name, published)


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = made.binary_contents(cifar10.BINARY, 10, 1)
    form = made.retold(cifar10.BINARY, contents)
    monkeypatch.setattr(cifar10, "BINARY", form)
    path = made.tar(tmp_path / "cifar-10-binary.tar.gz", form, contents)
    archive("cifar-10", form, path, monkeypatch)
    (finding,) = check("cifar-10", tmp_path).findings
    assert finding.problem is None
    assert ", md5 " in finding.note
    # Packed by another program its files are still the published ones.
    made.tar(path, form, contents, {"note.txt": b"packed again"})
    (finding,) = check("cifar-10", tmp_path).findings
    assert (finding.problem, finding.note) == (None, "packed anew, but each of its files has the published md5")
    made.tar(path, form, contents | {"test_batch.bin": bytes(5 * 3073)})
    (finding,) = check("cifar-10", tmp_path).findings  # and nothing that calls it good
    assert "test_batch.bin in" in str(finding.problem)
    path.write_bytes(path.read_bytes()[:100])
    (finding,) = check("cifar-10", tmp_path).findings
    assert "cannot be read: it is truncated" in str(finding.problem)


def test_an_archive_whose_files_have_no_checksum_must_be_the_published_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = made.idx_contents(emnist_letters.PUBLISHED.forms[0], first=1)
    form = made.retold(emnist_letters.PUBLISHED.forms[0], contents)
    monkeypatch.setattr(emnist_letters, "PUBLISHED", replace(emnist_letters.PUBLISHED, forms=(form,)))
    path = made.zipped(tmp_path / "emnist/gzip.zip", form, contents)
    archive("emnist-letters", form, path, monkeypatch)
    assert not check("emnist-letters", tmp_path).problems
    made.zipped(path, form, dict(reversed(contents.items())))
    (finding,) = check("emnist-letters", tmp_path).findings
    assert "gzip.zip is not the published one, of " in str(finding.problem)


def test_data_of_ones_own_and_carried_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 5, 5), np.uint8), y=np.array([0, 1, 0, 1]))
    assert not check(str(tmp_path / "mine.npz")).problems
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 5, 5), np.uint8), y=np.array([0, 1, 0]))
    (finding,) = check(str(tmp_path / "mine.npz")).problems
    assert "4 images and 3 labels" in str(finding.problem)
    report = check("fashion-mnist-10k")
    assert not report.problems
    assert [finding.note for finding in report.findings] == [
        "7,840,016 bytes unpacked, md5 8181f5470baa50b63fa0f6fddb340f0a",
        "10,008 bytes unpacked, md5 15d484375f8d13e6eb1aabb0c3f46965",
    ]
    with pytest.raises(DataError, match="did you mean 'mnist'"):
        check("mnits")


@pytest.mark.usefixtures("no_data")
def test_data_that_are_nowhere(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mnist/ was found in none of"):
        check("mnist", tmp_path)


# ---- on the command line ------------------------------------------------------------------------------------------


def test_command(potluck: tiny.Command, digits: Path) -> None:
    ran = potluck("data", "check", "mnist", "--data-dir", digits.parent)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"mnist in {digits}\n  good   train-images-idx3-ubyte.gz: 9,424 bytes unpacked, md5 ")
    assert ran.out.endswith("All is well: 17 images of 1x28x28, 10 classes.\n")
    path = digits / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-5])
    ran = potluck("data", "check", "mnist", "--data-dir", digits.parent)
    assert ran.code == 2
    assert ran.err == (
        "potluck: of 4 files of mnist these are not as published: t10k-labels-idx1-ubyte.gz. To get what is wrong "
        f"again: potluck data fetch mnist --data-dir {digits.parent}\n"
    )
    assert f"  wrong  {path.name}: the file {path} is truncated: its compressed data end too early. Put " in ran.out


def test_fetch_is_advised_only_where_it_mends(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (digits / "t10k-labels-idx1-ubyte.gz").unlink()
    assert check("mnist", digits.parent).fetched
    monkeypatch.setenv("POTLUCK_DATA", str(digits.parent))
    assert check("mnist").fetched
    assert not check("mnist", tmp_path / "other").fetched  # into which it would be fetched


def test_command_on_data_of_ones_own(potluck: tiny.Command, tmp_path: Path) -> None:
    (tmp_path / "mine.npz").write_text("no arrays")
    for name in (tmp_path / "mine.npz", tmp_path / "nowhere.npz", f"{tmp_path}/nothing/"):
        ran = potluck("data", "check", name)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("potluck: ")
        assert str(name).rstrip("/") in ran.err
        assert ran.err.count("\n") == 1
    np.savez(tmp_path / "mine.npz", x=np.zeros((4, 5, 5), np.uint8), y=np.array([0, 1, 0, 1]))
    ran = potluck("data", "check", tmp_path / "mine.npz")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("All is well: 4 images of 1x5x5, 2 classes.\n")


def test_list(potluck: tiny.Command, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    ran = potluck("data", "list", "--data-dir", digits.parent)
    assert (ran.code, ran.err) == (0, "")
    _, _, _, *lines, _, searched, advice = ran.out.splitlines()
    rows = {first.split()[0]: (first, second.strip()) for first, second in zip(lines[::2], lines[1::2], strict=True)}
    assert list(rows) == sources.names()
    assert rows["mnist"][1] == str(digits)
    assert rows["fashion-mnist-10k"][1] == "carried by Potluck"
    assert rows["cifar-10"][1] == "not here; 162 MiB to fetch"
    assert rows["emnist-letters"][0].rstrip().endswith("124,800 + 20,800 letters, 28x28, 26 classes")
    assert searched.startswith(f"Looked for in {digits.parent}, then ")
    assert advice.endswith(f", into {digits.parent}: potluck data fetch NAME --data-dir {digits.parent}")
