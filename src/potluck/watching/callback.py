"""One's own logging: methods that a run calls as it goes.

Whoever watches sees, and changes nothing: no number of a run depends on who listens. Events come in this order::

    run_begun, (round_begun, trained ..., evaluating ..., evaluated, round_over) for every round, run_over
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from potluck.errors import ConfigError

Watch = Callable[[dict[str, Any]], None]
"""Called with each event of a run, ``{"event": "run" | "begin" | "train" | "evaluate" | "evaluated" | "round" | "over",
...}``; a :class:`Callback` is one that has a method for each."""


class Callback:
    """Override what you want to hear of, and give it to ``Federation.run(watch=...)``, alone or in a list.

    >>> class Print(Callback):
    ...     def round_over(self, record):
    ...         print(record["round"], record["loss"])
    >>> Print()({"event": "round", "round": 1, "loss": 0.5})
    1 0.5
    """

    def run_begun(self, rounds: int, done: int) -> None:
        """A run of ``rounds`` rounds begins, or goes on after ``done`` of them."""

    def round_begun(self, round: int, cohort: list[int]) -> None:
        """A round begins; these clients take part. Round 0 is the enrolment of methods that have one."""

    def trained(self, done: int, total: int) -> None:
        """One more client of the cohort has trained."""

    def evaluating(self, done: int, total: int) -> None:
        """One more client outside the cohort was evaluated."""

    def evaluated(self, round: int, scores: dict[str, Any], clients: dict[int, dict[str, Any]]) -> None:
        """All clients were evaluated: the mean of each score, and the scores of every client.

        Scores are ``accuracy``, ``balanced_accuracy``, ``macro_f1`` and ``validation_accuracy``; ``None`` where there
        is nothing to score on.
        """

    def round_over(self, record: dict[str, Any]) -> None:
        """A round is over and safe: its record, as in ``rounds.jsonl``."""

    def run_over(self, summary: dict[str, Any]) -> None:
        """The run is over: its summary, as in ``summary.json``. Not called for a run that is stopped or fails."""

    def __call__(self, event: dict[str, Any]) -> None:
        """Hear an event."""
        match event["event"]:
            case "run":
                self.run_begun(event["rounds"], event["done"])
            case "begin":
                self.round_begun(event["number"], event["cohort"])
            case "train":
                self.trained(event["done"], event["total"])
            case "evaluate":
                self.evaluating(event["done"], event["total"])
            case "evaluated":
                self.evaluated(event["number"], event["scores"], event["clients"])
            case "round":
                self.round_over({key: value for key, value in event.items() if key != "event"})
            case "over":
                self.run_over(event["summary"])


def together(watch: Watch | Iterable[Watch]) -> Watch:
    """One watcher for several; each hears every event, in the order in which they are given."""
    watchers = [watch] if callable(watch) else list(watch) if isinstance(watch, Iterable) else [watch]
    for each in watchers:
        if not callable(each) or isinstance(each, type):
            raise ConfigError(
                f"watch: {each!r} cannot listen. Give a potluck.Callback, a function of one event, or a list of them."
            )

    def tell(event: dict[str, Any]) -> None:
        for each in watchers:
            each(event)

    return tell
