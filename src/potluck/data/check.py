"""Whether the files of a data set are the ones that were published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from potluck.data import sources
from potluck.data.fetch import matches
from potluck.data.sources import Source
from potluck.data.sources.files import Found
from potluck.data.sources.locate import locate, places
from potluck.data.sources.published import File
from potluck.errors import DataError


@dataclass(frozen=True)
class Finding:
    """What was found out about one file.

    Attributes:
        file: Its name.
        problem: What is wrong with it, and what to do; None where nothing is.
        note: What it was compared with.
    """

    file: str
    problem: str | None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What was found out about a data set.

    Attributes:
        where: Its folder or archive.
        findings: One for each file.
        source: The data set, where it could be loaded.
        fetched: Whether it lies where ``potluck data fetch`` would put it, which then mends what is wrong.
    """

    where: str
    findings: tuple[Finding, ...]
    source: Source | None
    fetched: bool = False

    @property
    def problems(self) -> list[Finding]:
        """The findings that are problems."""
        return [finding for finding in self.findings if finding.problem]


def check(name: str, data_dir: str | Path | None = None) -> Report:
    """Compare every file of a data set with the published one, then load it; data of one's own are loaded.

    Raises:
        DataError: It is nowhere to be found.
    """
    if sources.is_path(name):
        path = sources.absolute(name)
        return _loaded(name, path, data_dir, [Finding(Path(path).name, None, "read as a whole")])
    published = sources.published(name)
    if published is None:
        carried = sources.fashion_mnist_10k.FILES.items()
        findings = [Finding(file, None, _note(expected, expected.size or 0, True)) for file, expected in carried]
        return _loaded(name, "the package itself", data_dir, findings)
    found = locate(name, published.forms, data_dir)
    if found.is_archive:
        report = _loaded(name, str(found.path), data_dir, [Finding(found.path.name, None)])
        return report if report.problems else replace(report, findings=(_archive(found),))
    findings = [_file(found, file) for file in found.form.files]
    form = published.forms[0]
    fetched = found.form is form and found.path == places(data_dir)[0] / form.folders[0]
    if any(finding.problem for finding in findings):
        return Report(str(found.path), tuple(findings), None, fetched)
    return _loaded(name, str(found.path), data_dir, findings)


def _file(found: Found, file: str) -> Finding:
    """What one file of a folder tells."""
    try:
        _, content = found.content(file)
    except DataError as error:
        return Finding(file, str(error))
    return Finding(file, None, _note(found.form.files[file], len(content), found.form.compressed))


def _note(expected: File, size: int, compressed: bool) -> str:
    sums = f"md5 {expected.md5}" if expected.md5 else "no checksum of it is published"
    return f"{size:,} bytes{' unpacked' if compressed else ''}, {sums}"


def _archive(found: Found) -> Finding:
    """What an archive as a whole tells, all of whose files could be loaded."""
    download = found.form.downloads[0]
    if matches(found.path, download):
        return Finding(found.path.name, None, f"{download.size:,} bytes, md5 {download.md5}")
    if all(file.md5 for file in found.form.files.values()):
        return Finding(found.path.name, None, "packed anew, but each of its files has the published md5")
    return Finding(
        found.path.name,
        f"the archive {found.path} is not the published one, of {download.size:,} bytes and md5 {download.md5}. "
        f"{found.form.remedy} again.",
    )


def _loaded(name: str, where: str, data_dir: str | Path | None, findings: list[Finding]) -> Report:
    """The report of a data set that is loaded, with these findings unless that fails."""
    try:
        source = sources.load(name, data_dir)
    except DataError as error:
        return Report(where, (Finding(Path(where).name, str(error)),), None)
    return Report(where, tuple(findings), source)
