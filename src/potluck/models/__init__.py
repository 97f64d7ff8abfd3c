"""Networks: those of the papers by name, anyone's own cut into ``body`` and ``head``.

>>> from potluck.models import build, split
>>> sorted(split(build("cnn-5", (3, 32, 32), 10), (3, 32, 32)))
['body', 'head']
"""

from __future__ import annotations

from potluck.models.assign import Assignment, assign, assignment
from potluck.models.extractor import same_size_extractor
from potluck.models.fingerprint import fingerprint
from potluck.models.registry import MLP_EXAMPLES, build, names
from potluck.models.split import check_outputs, output_width, representation_width, split

__all__ = [
    "MLP_EXAMPLES",
    "Assignment",
    "assign",
    "assignment",
    "build",
    "check_outputs",
    "fingerprint",
    "names",
    "output_width",
    "representation_width",
    "same_size_extractor",
    "split",
]
