"""For all tests: how GPU kernels are tried where there is no GPU."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when kernels are defined

collect_ignore_glob = [] if find_spec("triton") else ["src/potluck/engines/stacked/operations/kernels/*"]
"""Without a compiler for them, these cannot even be looked at for examples."""
