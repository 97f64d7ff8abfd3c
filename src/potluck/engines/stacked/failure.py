"""What keeps clients from stepping together: too little memory, or what PyTorch cannot do for several at once."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from potluck.algorithms.hooks import is_out_of_memory
from potluck.errors import PotluckError

_log = logging.getLogger("potluck")


@dataclass
class Attempt:
    """How an attempt ended.

    Attributes:
        fits: Whether there was memory enough.
        failure: What else went wrong, in short; nothing if it went well.
    """

    fits: bool = True
    failure: str = ""


@contextmanager
def attempt() -> Iterator[Attempt]:
    """Note how what is done meanwhile ends: if memory runs out, or PyTorch cannot do it.

    What it held is free only afterwards. A GPU that no longer works is no matter of memory, nor of stacking.
    """
    made = Attempt()
    try:
        yield made
    except PotluckError:
        raise
    except Exception as error:  # a custom loss may raise anything; the loop engine says what is wrong with it
        if is_out_of_memory(error):
            made.fits = False
        elif isinstance(error, getattr(torch, "AcceleratorError", ())):
            raise
        else:
            _log.debug("what clients did together failed:", exc_info=error)
            made.failure = in_short(error)


def in_short(error: Exception) -> str:
    """What PyTorch has to say at its shortest.

    >>> in_short(RuntimeError("NYI: it is not there yet. Ask others"))
    'RuntimeError: NYI: it is not there yet'
    """
    first = re.split(r"\.\s|\n", str(error).strip())[0]
    return f"{type(error).__name__}: {first.rstrip('.')[:240]}"
