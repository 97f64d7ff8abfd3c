"""The page in a browser, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from potluck.report.page import write_report
from results import made

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)


@pytest.mark.skipif(not CHROMIUM, reason="no browser here")
def test_it_opens_without_an_error_or_a_request(tmp_path: Path) -> None:
    page = write_report([made.run(tmp_path / "a")], tmp_path / "out", quick=True)
    # Whatever goes wrong on the page is written into its title, which is then read back.
    guard = (
        "<script>window.wrong = []; onerror = (text) => wrong.push(text);"
        'const fine = (entry) => entry.name.startsWith("data:");'
        "onload = () => { const asked = performance.getEntriesByType('resource').filter((each) => !fine(each));"
        "const wide = document.documentElement.scrollWidth > innerWidth;"
        "document.querySelectorAll('#accuracy input')[2].click();"
        "const shown = document.querySelector('#accuracy .version:not([hidden])').dataset.version;"
        "document.title = JSON.stringify({wrong, asked: asked.length, wide, shown}); };</script>"
    )
    page.write_text(page.read_text().replace("<style>", f"{guard}<style>", 1))
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
        *("--disable-component-update", "--disable-sync", "--window-size=500,900"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom", page.as_uri()),
    ]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False).stdout
    title = re.search("<title>(.*?)</title>", dom)
    assert title is not None
    assert title[1] == '{"wrong":[],"asked":0,"wide":false,"shown":"2"}'
