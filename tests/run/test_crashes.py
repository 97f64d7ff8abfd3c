"""A run that is killed before any single thing that it does to the disk resumes to the same result.

That is more than killing at random moments can show, few of which fall between two writes. By default every fifth
thing is tried; with ``POTLUCK_KILLS=15`` or more, each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import potluck
from run import crashes

EVERY = max(15 // int(os.environ.get("POTLUCK_KILLS", "3")), 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_crash_before_each_write(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(potluck.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, crashes.__file__, str(tmp_path), str(EVERY)]
    report = json.loads(subprocess.check_output(command, env=environment, timeout=600))
    assert report["wrong"] == []
    assert report["crashes"] >= 60 // EVERY
