"""Whether the files of a data set are the ones that were published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from potluck.data import sources
from potluck.data.fetch import matches
from potluck.data.sources import Source
from potluck.data.sources.files import Found
from potluck.data.sources.locate import locate
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
    """

    where: str
    findings: tuple[Finding, ...]
    source: Source | None

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
        return _loaded(name, path, data_dir, [])
    published = sources.published(name)
    if published is None:
        return _loaded(name, "the package itself", data_dir, [])
    found = locate(name, published.forms, data_dir)
    if found.is_archive:
        return _loaded(name, str(found.path), data_dir, [_archive(found)])
    findings = []
    for file, expected in found.form.files.items():
        try:
            _, content = found.content(file)
        except DataError as error:
            findings.append(Finding(file, str(error)))
        else:
            sums = f"md5 {expected.md5}" if expected.md5 else "no checksum of it is published"
            unpacked = " unpacked" if found.form.compressed else ""
            findings.append(Finding(file, None, f"{len(content):,} bytes{unpacked}, {sums}"))
    return _loaded(name, str(found.path), data_dir, findings)


def _archive(found: Found) -> Finding:
    """What the archive as a whole tells; its files are compared when it is loaded."""
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
    """The report, completed by loading the data set, unless something is wrong already."""
    if any(finding.problem for finding in findings):
        return Report(where, tuple(findings), None)
    try:
        source = sources.load(name, data_dir)
    except DataError as error:
        return Report(where, (*findings, Finding(Path(where).name, str(error))), None)
    return Report(where, tuple(findings) or (Finding(Path(where).name, None, "read as a whole"),), source)
