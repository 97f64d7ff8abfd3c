"""What to try next, by Optuna, as a pure function of what was tried before."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

from potluck import draws
from potluck.errors import PotluckError
from potluck.tune.space import Choice, Range, Space

_AT_RANDOM = 5
"""Trials before what was found is made use of."""


class Tried(NamedTuple):
    """Values that were tried, and the validation accuracy that came of them; None if the run failed."""

    values: dict[str, Any]
    score: float | None


def load_optuna() -> ModuleType:
    """Optuna, or one clear message without it."""
    try:
        import optuna
    except ImportError as error:
        raise PotluckError(
            "potluck tune needs Optuna, which is not installed. Get it: pip install optuna "
            "(or, in a clone of Potluck, pip install -e '.[tune]')"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def propose(space: Space, tried: Sequence[Tried], method: str, seed: int) -> dict[str, Any]:
    """The next values to try.

    Everything that was tried is told to a new sampler, seeded by the number of the trial: the same past gives the
    same proposal, so that nothing but the runs has to be kept.
    """
    optuna = load_optuna()
    distributions = {key: _distribution(optuna, each) for key, each in space.items()}
    sampler = optuna.samplers.TPESampler(
        seed=draws.fold(seed, "tune", method, len(tried)) % 2**32, n_startup_trials=_AT_RANDOM
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for values, score in tried:
        known = {key: value for key, value in values.items() if _within(space[key], value)}
        # The first trial takes defaults, which need not lie in a space that was asked for.
        if known.keys() == space.keys():
            state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
            study.add_trial(
                optuna.trial.create_trial(state=state, value=score, params=known, distributions=distributions)
            )
    proposed = study.ask(fixed_distributions=distributions).params
    return {key: space[key].tidy(value) for key, value in proposed.items()}


def _distribution(optuna: ModuleType, space: Range | Choice) -> Any:
    if isinstance(space, Choice):
        return optuna.distributions.CategoricalDistribution(space.values)
    if space.whole:
        return optuna.distributions.IntDistribution(int(space.low), int(space.high), log=space.log)
    return optuna.distributions.FloatDistribution(space.low, space.high, log=space.log)


def _within(space: Range | Choice, value: Any) -> bool:
    if isinstance(space, Choice):
        return value in space.values
    return isinstance(value, int | float) and space.low <= value <= space.high
