"""Downloads, from a server of our own: whole, in parts, broken off, altered, or not there."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from data.sources import made
from potluck.data import fetch as fetching
from potluck.data import sources
from potluck.data.fetch import fetch
from potluck.data.sources.published import Download, Form, Published
from potluck.errors import DataError
from potluck.report.progress import downloads
from run import tiny

COMMAND = "potluck data fetch mnist --data-dir"


@dataclass
class Site:
    """A server on this machine, and how it behaves."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    breaks_after: list[int] = field(default_factory=list)
    """How many bytes each of the next answers gives before it breaks off."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    port: int = 0

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"


@pytest.fixture
def site() -> Iterator[Site]:
    state = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name, asked = self.path.lstrip("/"), self.headers["Range"]
            state.asked.append((name, asked))
            if name not in state.files:
                self.send_error(404)
                return
            content = state.files[name]
            start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and state.ranges else 0
            if start >= len(content) > 0 and asked:
                self.send_error(416)
                return
            self.send_response(206 if asked and state.ranges else 200)
            self.send_header("Content-Length", str(len(content) - start))
            if asked and state.ranges:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            rest = content[start:]
            if state.breaks_after:
                rest = rest[: state.breaks_after.pop(0)]
            self.wfile.write(rest)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def publish(
    name: str, form: Form, downloads: dict[str, bytes], site: Site, monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    """Let a data set be published at the site."""
    site.files = {Path(path).name: content for path, content in downloads.items()}
    offered = tuple(
        Download(path, (site.url(Path(path).name),), len(content), md5(content)) for path, content in downloads.items()
    )
    published = Published("made", (replace(form, downloads=offered),))
    monkeypatch.setitem(sources._PUBLISHED, name, published)
    return site.files


@pytest.fixture
def mnist(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Four files, as they lie on disk."""
    contents = made.idx_contents(made.FORMS["mnist"].forms[0])
    form = made.retold(made.FORMS["mnist"].forms[0], contents)
    stored = {f"mnist/{name}": content for name, content in made.stored(form, contents).items()}
    return publish("mnist", form, stored, site, monkeypatch)


@pytest.fixture
def cifar(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> made.Contents:
    """One archive."""
    contents = made.binary_contents(made.FORMS["cifar-10"].forms[0], 10, 1)
    form = made.retold(made.FORMS["cifar-10"].forms[0], contents)
    archive = made.tar(tmp_path / "made.tar.gz", form, contents).read_bytes()
    publish("cifar-10", form, {"cifar-10-binary.tar.gz": archive}, site, monkeypatch)
    return contents


def test_files_are_put_where_they_are_looked_for(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    folder = fetch("mnist", tmp_path / "data", lambda *event: seen.append(event))
    assert folder == tmp_path / "data/mnist"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == mnist
    for name, content in mnist.items():
        done = [event[1] for event in seen if event[0] == name]
        assert done == sorted(done)
        assert (done[0], done[-1]) == (0, len(content))
    # Once is enough.
    count = len(site.asked)
    fetch("mnist", tmp_path / "data")
    assert len(site.asked) == count
    # What is damaged or missing is fetched again, and nothing else.
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    fetch("mnist", tmp_path / "data")
    assert site.asked[count:] == [("t10k-labels-idx1-ubyte.gz", None)]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == mnist


def test_without_a_folder_the_first_place_is_taken(
    mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("POTLUCK_DATA", str(tmp_path / "environment"))
    assert fetch("mnist") == tmp_path / "environment/mnist"
    monkeypatch.delenv("POTLUCK_DATA")
    assert fetch("mnist") == tmp_path / "cache/potluck/mnist"


def test_archives_are_unpacked(site: Site, cifar: made.Contents, tmp_path: Path) -> None:
    folder = fetch("cifar-10", tmp_path / "data")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == cifar
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["cifar-10-batches-bin"]
    fetch("cifar-10", tmp_path / "data")
    assert len(site.asked) == 1


def test_an_archive_put_there_by_hand_is_used(site: Site, cifar: made.Contents, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    archive, content = tmp_path / "data/cifar-10-binary.tar.gz", site.files.pop("cifar-10-binary.tar.gz")
    archive.write_bytes(content)
    folder = fetch("cifar-10", tmp_path / "data")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == cifar
    assert site.asked == []
    assert archive.read_bytes() == content  # not ours to remove


def test_compressed_files_in_a_zip_stay_compressed(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    contents = made.idx_contents(made.FORMS["emnist-letters"].forms[0], first=1)
    form = made.retold(made.FORMS["emnist-letters"].forms[0], contents)
    archive = made.zipped(tmp_path / "gzip.zip", form, contents).read_bytes()
    publish("emnist-letters", form, {"emnist/gzip.zip": archive}, site, monkeypatch)
    folder = fetch("emnist-letters", tmp_path / "data")
    assert folder == tmp_path / "data/emnist/gzip"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made.stored(form, contents)
    assert [path.name for path in (tmp_path / "data/emnist").iterdir()] == ["gzip"]


# ---- interruptions ------------------------------------------------------------------------------------------------


def test_goes_on_where_it_ended(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    name = "train-images-idx3-ubyte.gz"
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{name}.part").write_bytes(mnist[name][:1000])
    fetch("mnist", tmp_path)
    assert site.asked[0] == (name, "bytes=1000-")
    assert (tmp_path / "mnist" / name).read_bytes() == mnist[name]
    assert not list((tmp_path / "mnist").glob("*.part"))


def test_a_site_without_ranges_sends_everything(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    name = "train-images-idx3-ubyte.gz"
    site.ranges = False
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{name}.part").write_bytes(mnist[name][:1000])
    fetch("mnist", tmp_path)
    assert (tmp_path / "mnist" / name).read_bytes() == mnist[name]


def test_connections_that_break_off_are_made_again(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    site.breaks_after = [100, 200, 0, 0, 300]
    fetch("mnist", tmp_path)
    assert [asked for name, asked in site.asked if name == "train-images-idx3-ubyte.gz"] == [
        None, "bytes=100-", "bytes=300-", "bytes=300-", "bytes=300-", "bytes=600-",
    ]  # fmt: skip
    assert {path.name: path.read_bytes() for path in (tmp_path / "mnist").iterdir()} == mnist


def test_patience_has_an_end_and_what_came_is_kept(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    site.breaks_after = [500, *[0] * 100]
    with pytest.raises(DataError, match=r"the connection broke off after 500 bytes\nTo try again, going on with what"):
        fetch("mnist", tmp_path)
    assert len(site.asked) == 1 + fetching._TRIES
    part = tmp_path / "mnist/train-images-idx3-ubyte.gz.part"
    assert part.read_bytes() == mnist["train-images-idx3-ubyte.gz"][:500]
    site.breaks_after = []
    fetch("mnist", tmp_path)
    assert ("train-images-idx3-ubyte.gz", "bytes=500-") in site.asked[-4:]
    assert {path.name: path.read_bytes() for path in (tmp_path / "mnist").iterdir()} == mnist


def test_patience_has_an_end_also_with_a_site_without_ranges(
    site: Site, mnist: dict[str, bytes], tmp_path: Path
) -> None:
    site.ranges = False
    site.breaks_after = [400, 500, *[400, 500] * 50]  # each second time more than the last time
    with pytest.raises(DataError, match="the connection broke off after 400 bytes"):
        fetch("mnist", tmp_path)
    assert len(site.asked) == 2 + fetching._TRIES


@pytest.mark.parametrize("length", [1000, 10**6])
def test_a_beginning_of_something_else_is_thrown_away(
    site: Site, mnist: dict[str, bytes], tmp_path: Path, length: int
) -> None:
    name = "train-images-idx3-ubyte.gz"
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{name}.part").write_bytes(bytes(length))
    if length > len(mnist[name]):
        with pytest.raises(DataError, match=r"it gives more than [\d,]+ bytes"):
            fetch("mnist", tmp_path)
    fetch("mnist", tmp_path)
    assert (tmp_path / "mnist" / name).read_bytes() == mnist[name]


# ---- what can be wrong --------------------------------------------------------------------------------------------


def test_other_content_is_not_taken(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    name = "train-labels-idx1-ubyte.gz"
    for wrong in (mnist[name][:-1] + b"x", mnist[name] + b"x", b"<html>Moved</html>"):
        site.files = {**mnist, name: wrong}
        with pytest.raises(DataError) as caught:
            fetch("mnist", tmp_path)
        message = str(caught.value)
        assert f"cannot get {name}:\n  {site.url(name)}: " in message
        assert f"  {site.url(name)} ({len(mnist[name]):,} bytes, md5 {md5(mnist[name])})" in message
        assert f"put it into the folder {tmp_path / 'mnist'} and run the same command" in message
        assert not (tmp_path / "mnist" / name).exists()
        for part in (tmp_path / "mnist").glob("*.part"):
            part.unlink()


def test_the_second_site_is_asked_where_the_first_fails(
    site: Site, mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = sources._PUBLISHED["mnist"]
    form = published.forms[0]
    downloads = tuple(
        replace(download, urls=(site.url(f"old/{index}"), download.urls[0]))
        for index, download in enumerate(form.downloads)
    )
    monkeypatch.setitem(sources._PUBLISHED, "mnist", replace(published, forms=(replace(form, downloads=downloads),)))
    site.files = {**mnist, "old/1": b"something else"}
    fetch("mnist", tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "mnist").iterdir()} == mnist
    assert ("old/0", None) in site.asked


def test_without_a_network_it_says_what_to_do(
    site: Site, mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = sources._PUBLISHED["mnist"]
    form = published.forms[0]
    # A port at which nobody listens.
    downloads = tuple(replace(download, urls=("http://127.0.0.1:1/x",)) for download in form.downloads)
    monkeypatch.setitem(sources._PUBLISHED, "mnist", replace(published, forms=(replace(form, downloads=downloads),)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as caught:
        fetch("mnist", "my data")
    first, reason, again, otherwise, *listed = str(caught.value).splitlines()
    assert first == "cannot get train-images-idx3-ubyte.gz:"
    assert reason == "  http://127.0.0.1:1/x: Connection refused"
    assert again == ("To try again, going on with what has arrived: potluck data fetch mnist --data-dir 'my data'")
    assert f"put it into the folder {tmp_path / 'my data/mnist'} and run the same command" in otherwise
    assert [line.split("md5 ")[1] for line in listed] == [f"{md5(content)})" for content in mnist.values()]


def test_places_that_cannot_be_written(site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot make the folder .*/file/mnist \(Not a directory\): name another"):
        fetch("mnist", tmp_path / "file")
    (tmp_path / "mnist/train-images-idx3-ubyte.gz.part").mkdir(parents=True)
    with pytest.raises(DataError, match=r"cannot write .*\.part \(Is a directory\): make room there, or name another"):
        fetch("mnist", tmp_path)


def test_names_that_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fashion-mnist-10k is a part of Potluck: there is nothing to fetch"):
        fetch("fashion-mnist-10k", tmp_path)
    with pytest.raises(DataError, match="did you mean 'mnist'"):
        fetch("mnits", tmp_path)
    with pytest.raises(DataError, match=r"\./mnist is a path: only data sets with a name can be fetched"):
        fetch("./mnist", tmp_path)


def test_what_is_offered_was_published() -> None:
    for published in sources._PUBLISHED.values():
        for form in published.forms:
            for download in form.downloads:
                assert all(url.startswith(("http://", "https://")) for url in download.urls)
                assert len(download.md5) == 32
                assert Path(download.path).name == Path(download.urls[0]).name
                assert download.path in form.archives or Path(download.path).name in form.files


# ---- on the command line ------------------------------------------------------------------------------------------


def test_command(potluck: tiny.Command, site: Site, mnist: dict[str, bytes], tmp_path: Path) -> None:
    ran = potluck("data", "fetch", "mnist", "--data-dir", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    # Not on a terminal: one line for each file, and none where there is nothing to fetch.
    *files, last = ran.out.splitlines()
    assert [line.split(": ")[0] for line in files] == list(mnist)
    assert all(re.fullmatch(r"\S+: ([\d.]+ K?i?B) of \1", line) for line in files)
    assert last == f"mnist is in {tmp_path / 'mnist'}, as published."
    assert potluck("data", "fetch", "mnist", "--data-dir", tmp_path).out == f"{last}\n"
    site.files.clear()
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    ran = potluck("data", "fetch", "mnist", "--data-dir", tmp_path)
    assert ran.code == 2
    assert ran.err.startswith("potluck: cannot get t10k-labels-idx1-ubyte.gz:\n")
    assert "it answers 404 Not Found" in ran.err
    assert ran.err.count("md5") == 1  # what is there already need not be got


def test_progress_in_a_log_and_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    log, now = io.StringIO(), 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    with downloads(Console(file=log)) as watch:
        for now in range(0, 61, 6):
            watch("a.gz", now << 20, 60 << 20)
        watch("a.gz", 60 << 20, 60 << 20)
    assert log.getvalue().splitlines() == [f"a.gz: {size} MiB of 60.0 MiB" for size in ("18.0", "36.0", "54.0", "60.0")]
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)
    with downloads(terminal):
        pass
    assert screen.getvalue() == ""
    with downloads(terminal) as watch:
        watch("a.gz", 60 << 20, 60 << 20)
    assert "60.0/60.0 MiB" in re.sub(r"\x1b\[[\d;?]*\w", "", screen.getvalue())


def test_interrupted_command(
    potluck: tiny.Command, mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "_get_more", interrupted)
    ran = potluck("data", "fetch", "mnist", "--data-dir", tmp_path)
    assert ran.code == 130
    assert f"Stopped; what has arrived is kept. Go on with it: {COMMAND} {tmp_path}\n" in ran.out
