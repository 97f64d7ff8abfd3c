"""Carrying out one run of a comparison, from its beginning or from where it stopped."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from potluck.compare.places import Place
from potluck.errors import BusyRunError, InterruptedRunError, PotluckError, RunError
from potluck.experiment import make_federation
from potluck.federation import Federation
from potluck.run.folder import RunFolder

Tell = Callable[[Place, dict[str, Any]], None]
"""Called with what happens to a cell: ``{"event": "begin" | "round" | "end", ...}``."""
Verdict = Literal["done", "busy", "stopped", "failed"]


class Outcome(NamedTuple):
    """How it ended: done, left to another process that runs it, stopped or failed; and what there is to say."""

    verdict: Verdict
    text: str = ""


class Stop:
    """Lets a signal end the run that is under way; any thread may ask for it."""

    def __init__(self) -> None:
        self.asked = False
        self._federation: Federation | None = None

    def ask(self) -> None:
        """Stop what runs at its next step, and begin nothing more."""
        self.asked = True
        under_way = self._federation  # it may be over in this moment
        if under_way is not None:
            under_way.stop()

    @contextmanager
    def covering(self, federation: Federation) -> Iterator[None]:
        """Within, asking stops this federation."""
        self._federation = federation
        if self.asked:
            federation.stop()
        try:
            yield
        finally:
            self._federation = None


def run_place(place: Place, tell: Tell, stop: Stop) -> Outcome:
    """Run a cell to its end, unless it is over, somebody else runs it, or it is stopped."""
    begun, ours = place.begun, False

    def watch(event: dict[str, Any]) -> None:
        nonlocal ours
        ours = True  # the first event comes when the folder is locked
        if event["event"] == "round":
            scores = event["all"] or event["participants"]
            shown = {name: scores[name] for name in ("accuracy", "validation_accuracy")}
            tell(place, {"event": "round", "round": event["round"], **shown})

    try:
        if place.finished:
            return Outcome("done")
        if begun and RunFolder.open(place.path).is_busy():  # before anything is loaded
            return Outcome("busy")
        federation = make_federation(place.cell.config, place.path)
        problems = federation.restore() if begun else []
        tell(place, {"event": "begin", "round": federation.rounds})
        with stop.covering(federation):
            federation.run(place.cell.config.rounds, watch=watch)
        return Outcome("done", " ".join(problems))
    except BusyRunError:
        return Outcome("busy")
    except (InterruptedRunError, KeyboardInterrupt):
        return Outcome("stopped")
    except RunError as error:
        return Outcome("busy") if not ours and _taken_up(place, begun) else Outcome("failed", str(error))
    except PotluckError as error:
        return Outcome("failed", str(error))
    except Exception as error:  # memory of a GPU that ran out, or a custom algorithm: the others go on
        traceback.print_exc()
        return Outcome("failed", f"{type(error).__name__}: {error}")


def _taken_up(place: Place, begun: bool) -> bool:
    """Whether another process has begun, or ended, this run since it was seen to be ``begun`` or not."""
    try:
        return place.begun and (not begun or place.finished)
    except RunError:
        return False  # it is damaged
