"""The round loop: sample, broadcast, train, aggregate, evaluate, record, checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from torch import Tensor, nn

from potluck import algorithms, draws
from potluck.algorithms import Algorithm, State, Upload
from potluck.algorithms.admission import aggregated, check_upload
from potluck.algorithms.hooks import calling, given, given_tensors
from potluck.algorithms.uploads import cast
from potluck.client import Client, Samples, as_tensor
from potluck.config import FederationConfig
from potluck.contract import Round
from potluck.data.examples import check_inputs
from potluck.data.transform import Transform
from potluck.engines import Engine, Job, Outcome, Setting, find_devices, free_forgotten, make_engine
from potluck.engines.precision import Precision
from potluck.engines.threads import threads
from potluck.errors import (
    ConfigError,
    DataError,
    InterruptedRunError,
    PotluckError,
    RunError,
    TrainingError,
)
from potluck.joining import admit, check_finite, common_task, inputs, public_samples
from potluck.metrics.accuracy import Evaluation
from potluck.metrics.early_stop import standing
from potluck.metrics.observe import means, observe
from potluck.metrics.protocol import History, client_scores, mean_scores, summarize
from potluck.metrics.server import ServerCounter
from potluck.payload import Payload
from potluck.run.record import RunRecord
from potluck.settings import MOST, explain, unknown
from potluck.watching import Watch, together

GIVEN = "given"
"""What stands for the data set in the configuration of a run whose data were given from Python."""


class Federation:
    """Clients that learn together by an algorithm.

    >>> federation = Federation("pfedes", clients=clients, mu=0.1, epochs=2)     # doctest: +SKIP
    >>> federation.run(rounds=50).summary["all_last"]                            # doctest: +SKIP
    >>> federation.predict(3, x)                                                 # doctest: +SKIP

    Args:
        algorithm: Its name, its class, or an instance with its own settings.
        clients: The participants. They are not changed, and may be given to any number of federations.
        fraction: Share of the clients that take part in a round.
        seed: The one seed of every random draw.
        engine: Where clients execute: ``loop``, ``stacked`` or ``auto``.
        device: ``cpu``, ``cuda``, ``cuda:1`` or ``auto``; several, as in ``cuda:0,cuda:1``, share the clients.
        out: Folder of the run; without one, everything stays in memory.
        public: Samples that everybody may see, for algorithms that need them.
        transform: How inputs are normalised and augmented; by default they are used as they are.
        config: What to write as the run's configuration, if this is part of a larger one.
        **settings: Any other setting of :class:`potluck.config.FederationConfig` (``epochs``, ``batch_size``,
            ``learning_rate``, ``evaluate_every``, ...) and the algorithm's own (``mu``).
    """

    def __init__(
        self,
        algorithm: str | Algorithm | type[Algorithm],
        clients: Sequence[Client],
        *,
        fraction: float = 1.0,
        seed: int = 0,
        engine: str = "auto",
        device: str = "auto",
        out: str | Path | None = None,
        public: Samples | None = None,
        transform: Transform | None = None,
        config: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        ours = {key: settings.pop(key) for key in list(settings) if key in FederationConfig.model_fields}
        try:
            self.config = FederationConfig(fraction=fraction, seed=seed, engine=engine, device=device, **ours)
        except ValidationError as error:
            raise ConfigError(explain(error, FederationConfig)) from error
        seed, path = self.config.seed, _path_of(out)
        if transform is not None and not isinstance(transform, Transform):
            raise ConfigError(
                f"transform: {transform!r} is no potluck.data.transform.Transform: give, for example, "
                "Transform(mean=(0.5,), std=(0.5,), augmentation='release')."
            )
        if config is not None and not isinstance(config, Mapping):
            raise ConfigError(f"config: {config!r} is no dict of settings.")
        self.algorithm = _algorithm(algorithm, settings)
        participants = _list_of(clients)
        self.clients = tuple(client.numbered(number) for number, client in enumerate(participants))
        self._numbers = {id(client): number for number, client in enumerate(participants)}
        self._given = participants  # or another client might get the identity of one of them
        self.cohort_size = cohort_size(len(self.clients), self.config.fraction)
        if self.config.early_stop and not any(len(client.validation) for client in self.clients):
            raise ConfigError(
                "early_stop goes by validation accuracy, and no client has validation samples: choose a split with "
                "some (8:1:1 or release), give clients validation=..., or leave early_stop out."
            )
        self.devices = find_devices(self.config.device)
        where = self.device = self.devices[0]
        free_forgotten(where)
        task = common_task(participants, self.algorithm)
        seen = public_samples(public, self.algorithm, task)
        self.task = task if seen is None else replace(task, public=len(seen))
        with calling(self.algorithm, "check_task"):
            self.algorithm.check_task(self.task)
        self._members = admit(self.clients, self.algorithm, seed, where)
        setting = Setting(
            algorithm=self.algorithm,
            task=self.task,
            training=self.config,
            transform=transform or Transform(),
            seed=seed,
            device=where,
            precision=Precision.of(self.config.precision, where),
            public=None if seen is None else seen.to(where),
        )
        self.engine: Engine = make_engine(self.config.engine, setting, self.devices)
        self.setting = setting
        self._record = RunRecord(
            path,
            config or self._plain_config(),
            partial(inputs, self.clients, seen, setting.transform),
        )
        self.history = History()
        with draws.initial_weights(draws.fold(seed, "server")), calling(self.algorithm, "server_state"):
            self.server = cast(given_tensors(self.algorithm.server_state(self.task)), setting.dtype)
        # Rounds may add tensors to the state and remove them: what every checkpoint has is what it starts with.
        self._layout = {name: (t.dim(), t.is_floating_point()) for name, t in self.server.items()}

    # ---- running --------------------------------------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """Rounds that are over."""
        return self.history.rounds[-1]["round"] if self.history.rounds else 0

    def run(self, rounds: int, *, watch: Watch | Iterable[Watch] | None = None) -> History:
        """Run until ``rounds`` rounds are over, and give the history of all of them.

        Args:
            rounds: Rounds in all; those that are over already count. Everyone is evaluated in the last one, and a
                schedule that depends on the total takes this one.
            watch: A :class:`potluck.Callback`, a function that is called with each event of the run, or a list of
                them. By default a terminal or notebook shows a live bar.
        """
        if not isinstance(rounds, int) or isinstance(rounds, bool) or not 1 <= rounds <= MOST:
            raise ConfigError(f"rounds: {rounds!r} is not a whole number from 1 to {MOST:,}.")
        if rounds <= self.rounds or self.stopped_early:
            # Perhaps a run that was killed between its last round and its summary.
            self._record.finish(self.summary)
            self._record.close()
            return self.history
        if watch is None:
            with _bar(rounds, self.rounds) as bar:
                return self.run(rounds, watch=bar)
        free_forgotten(self.device)  # such as one whose name this one got when it had been made
        tell = together(watch)
        self._record.begin()
        try:
            tell({"event": "run", "rounds": rounds, "done": self.rounds})
            start = 0 if self.algorithm.enrolls and not self.history.rounds else self.rounds + 1
            for number in range(start, rounds + 1):
                self._round(Round(number, rounds, draws.fold(self.config.seed, "server", number)), tell)
                if self.stopped_early:
                    break
            self._record.finish(self.summary)  # while no other process can go on with this run
        except BaseException as error:
            self._record.abandon_round()
            if isinstance(error, PotluckError):
                self._record.checkpoint(self.rounds, self.server)
            if isinstance(error, InterruptedRunError):
                raise InterruptedRunError(f"stopped after round {self.rounds}.") from None
            raise
        finally:
            self.setting.stop.clear()
            self._record.close()
        tell({"event": "over", "summary": self.summary})
        return self.history

    @property
    def stopped_early(self) -> bool:
        """Whether validation accuracy has not improved for ``early_stop`` evaluations of all clients."""
        patience = self.config.early_stop
        return patience is not None and standing(self.history.rounds).since >= patience

    @property
    def summary(self) -> dict[str, Any]:
        """The run in numbers, as in ``summary.json``: what was asked, and what came of it."""
        return summarize(self._record.config, self.history)

    def prepare(self) -> tuple[str, ...]:
        """What the engine has to say about the clients' networks before the run begins; mostly nothing."""
        first = {member.architecture.key: number for number, member in reversed(list(enumerate(self._members)))}
        self.engine.prepare(self._next(), (self.job(number, self._next()) for number in sorted(first.values())))
        return self.engine.notes

    def restore(self, *, to_read: bool = False) -> list[str]:
        """Go to the newest whole checkpoint in the run's folder; what was wrong with newer ones.

        To read, there has to be one, of a finished run that of its last round.

        Without ``to_read`` this is for a run that stopped: :meth:`run` then goes on with it. A run goes on with the
        data, models and initial weights that it began with: ``RunError`` says which of them differ.
        """
        found = self._record.restore(to_read=to_read, fits=self._refuse_server)
        if found.server is not None:
            self.server = found.server
        self.history = found.history
        return found.problems

    def _refuse_server(self, server: State) -> None:
        """Raise unless this is a state of the server of this federation, as far as can be seen without a round."""
        for name, form in self._layout.items():
            there = server.get(name)
            if there is None or (there.dim(), there.is_floating_point()) != form:
                raise RunError(f"the server's state in {self._record.path} is damaged: {name!r} does not fit.")
        for number in {0, len(self._members) - 1}:
            try:
                self.algorithm.broadcast(server, number, self._next())
            except (LookupError, RuntimeError, ValueError, TypeError) as error:
                raise RunError(f"the server's state in {self._record.path} is damaged: {error}.") from error

    def stop(self) -> None:
        """Ask a running federation to stop at the next step; :meth:`run` then raises ``InterruptedRunError``."""
        self.setting.stop.set()

    def _round(self, round: Round, watch: Watch) -> None:
        begin = time.perf_counter()
        chosen = range(len(self._members)) if round.number == 0 else self.cohort(round.number)
        counter = ServerCounter()
        with counter:
            jobs = {number: self.job(number, round) for number in chosen}
        watch({"event": "begin", "number": round.number, "cohort": sorted(jobs)})
        outcomes: dict[int, Outcome] = {}
        observed: dict[int, dict[str, float]] = {}
        with closing(self.engine.train(round, list(jobs.values()))) as trained:
            for outcome in trained:
                if outcome.state:
                    self._record.states.stage(outcome.client, round.number, outcome.state)
                    job = jobs[outcome.client]
                    observed[outcome.client] = observe(
                        self.setting, self.engine, self.config.measure, round, job, outcome
                    )
                # The state is in good hands: what is kept here of it is only what a record needs.
                outcomes[outcome.client] = replace(outcome, state={})
                self.setting.check_stop()
                watch({"event": "train", "done": len(outcomes), "total": len(jobs)})
        if not outcomes:
            raise TrainingError(f"no client answered in round {round.number}.")
        outcomes = dict(sorted(outcomes.items()))
        evaluations = {number: outcome.evaluation for number, outcome in outcomes.items()}
        everyone = self._evaluate_all(round, evaluations, watch) if self._everyone_due(round) else None
        server = self._aggregate(round, list(outcomes.values()), counter)
        record = self._round_record(round, jobs, outcomes, everyone, counter.total)
        lines = [self._client_record(round, e, jobs, outcomes) for e in (everyone or evaluations).values()]
        for line in lines:
            if seen := observed.get(line["client"]):
                line["observed"] = seen
        if seen := means(observed.values()):
            record["observed"] = seen
        record["seconds"] = time.perf_counter() - begin
        # Only a round that is recorded counts.
        self._record.commit_round(record, lines)
        self.server = server
        self.history.rounds.append(record)
        if everyone is not None:
            self.history.client_accuracy = [client_scores(evaluation)["accuracy"] for evaluation in everyone.values()]
        if round.number % self.config.checkpoint_every == 0 or round.number == round.total or self.stopped_early:
            self._record.checkpoint(round.number, server)
        watch({"event": "round", **record})

    def cohort(self, round: int) -> list[int]:
        """The clients that take part in a round, in the order of their ids."""
        order = draws.permutation(draws.fold(self.config.seed, "cohort", round), len(self._members))
        return sorted(order[: self.cohort_size].tolist())

    def _everyone_due(self, round: Round) -> bool:
        return round.number > 0 and (round.number % self.config.evaluate_every == 0 or round.number == round.total)

    # ---- the server -----------------------------------------------------------------------------------------------

    def job(self, number: int, round: Round) -> Job:
        """The work of a client: what it holds, and what it receives in a round."""
        with calling(self.algorithm, "broadcast", client=number, round=round):
            payload = given(Payload, self.algorithm.broadcast(self.server, number, round))
        return Job(self._members[number], lambda: self._record.states.get(number), payload)

    def _aggregate(self, round: Round, outcomes: Sequence[Outcome], counter: ServerCounter) -> State:
        uploads = [Upload(outcome.client, outcome.upload) for outcome in outcomes]
        for upload in uploads:
            check_upload(self.algorithm, upload, self.server, self.task)
        # Many small operations, if not one for each weight: more threads would mostly wait for each other.
        with threads(1):
            return aggregated(self.algorithm, self.server, uploads, round, self.task, counter, self.setting.check_stop)

    # ---- evaluation -----------------------------------------------------------------------------------------------

    def _evaluate_all(self, round: Round, done: dict[int, Evaluation], watch: Watch) -> dict[int, Evaluation]:
        """Everyone before the server combines: the cohort as just evaluated, the others with what they last held."""
        others = [number for number in range(len(self._members)) if number not in done]
        everyone = dict(done)
        jobs: Iterator[Job] = (self.job(number, round) for number in others)
        with closing(self.engine.evaluate(jobs)) as evaluated:
            for count, evaluation in enumerate(evaluated, 1):
                everyone[evaluation.client] = evaluation
                self.setting.check_stop()
                watch({"event": "evaluate", "done": count, "total": len(others)})
        everyone = dict(sorted(everyone.items()))
        scores = {number: client_scores(evaluation) for number, evaluation in everyone.items()}
        mean = mean_scores(list(everyone.values()))
        watch({"event": "evaluated", "number": round.number, "scores": mean, "clients": scores})
        return everyone

    def predict(self, client: int | Client, x: Tensor | np.ndarray) -> Tensor:
        """The classes that one client's personal model predicts.

        Args:
            client: Its number, one of :attr:`clients`, or the client as it was given to this federation.
            x: Inputs like the client's own.
        """
        return self.logits(client, x).argmax(1)

    def logits(self, client: int | Client, x: Tensor | np.ndarray) -> Tensor:
        """The outputs of one client's personal model, with what it would receive in the next round."""
        number, x = self._number(client), as_tensor(x)
        check_inputs(x, "the inputs to predict")
        check_finite(x, "the inputs to predict")
        if tuple(x.shape[1:]) != self.task.shape:
            raise DataError(
                f"inputs of shape {tuple(x.shape[1:])} are given, and the clients have {self.task.shape}: give a batch "
                "of them, with samples as the first dimension."
            )
        return self.engine.predict(self.job(number, self._next()), x)

    def networks(self, client: int | Client) -> dict[str, nn.Module]:
        """Copies of the networks one client holds now, by name: ``body`` and ``head`` are its own model."""
        return self.engine.networks(self.job(self._number(client), self._next()))

    def _number(self, client: int | Client) -> int:
        """The number of a client, however it is named."""
        count = len(self.clients)
        if isinstance(client, Client):
            if 0 <= client.id < count and self.clients[client.id] is client:
                return client.id
            if id(client) in self._numbers:
                return self._numbers[id(client)]
            raise ConfigError("this client is not one of this federation's: give its number, or one of its clients.")
        if not isinstance(client, int) or isinstance(client, bool) or not 0 <= client < count:
            raise ConfigError(f"there is no client {client!r}: the {count} clients are numbered from 0 to {count - 1}.")
        return client

    def _next(self) -> Round:
        number = self.rounds + 1
        return Round(number, number, draws.fold(self.config.seed, "server", number))

    # ---- records --------------------------------------------------------------------------------------------------

    def _round_record(
        self,
        round: Round,
        jobs: dict[int, Job],
        outcomes: dict[int, Outcome],
        everyone: dict[int, Evaluation] | None,
        server_flops: int,
    ) -> dict[str, Any]:
        losses = [outcome.loss for outcome in outcomes.values() if math.isfinite(outcome.loss)]
        return {
            "round": round.number,
            "cohort": sorted(jobs),
            "failed": sorted(jobs.keys() - outcomes.keys()),
            "loss": sum(losses) / len(losses) if losses else None,
            "participants": mean_scores([outcome.evaluation for outcome in outcomes.values()]),
            "all": mean_scores(list(everyone.values())) if everyone is not None else None,
            **_bytes("up", [outcome.upload for outcome in outcomes.values()]),
            **_bytes("down", [job.payload for job in jobs.values()]),
            "flops": sum(outcome.flops for outcome in outcomes.values()) + server_flops,
            "server_flops": server_flops,
        }

    @staticmethod
    def _client_record(
        round: Round, evaluation: Evaluation, jobs: dict[int, Job], outcomes: dict[int, Outcome]
    ) -> dict[str, Any]:
        record: dict[str, Any] = {"round": round.number, "client": evaluation.client, **client_scores(evaluation)}
        outcome = outcomes.get(evaluation.client)
        if outcome is not None:
            record["loss"] = outcome.loss if math.isfinite(outcome.loss) else None
            record |= _bytes("up", [outcome.upload]) | _bytes("down", [jobs[evaluation.client].payload])
            record["flops"] = outcome.flops
        return record

    def _plain_config(self) -> dict[str, Any]:
        settings = {key: value for key, value in self.config.model_dump(mode="json").items() if value is not None}
        method = {"name": self.algorithm.name, **self.algorithm.model_dump(mode="json")}
        return {
            "version": 1,
            "data": GIVEN,
            "clients": len(self.clients),
            **settings,
            "algorithm": method,
        }


def cohort_size(clients: int, fraction: float) -> int:
    """How many clients take part in a round: the fraction of them, rounded down.

    >>> cohort_size(100, 0.29)      # int(0.29 * 100) would be 28
    29
    """
    if clients < 1:
        raise ConfigError("a federation needs at least one client.")
    size = math.floor(fraction * clients + 1e-9)
    if size < 1:
        raise ConfigError(f"fraction {fraction} of {clients} clients selects nobody: give 1/{clients} or more.")
    return size


def _list_of(clients: Sequence[Client]) -> list[Client]:
    """The clients as they were given, if that is what they are."""
    if isinstance(clients, Client):
        raise ConfigError("clients: give a list of them, even of one.")
    if isinstance(clients, Mapping):
        raise ConfigError("clients: give a list; of a dict, list(clients.values()).")
    if isinstance(clients, str) or not isinstance(clients, Sequence):
        raise ConfigError(f"clients: give a list of potluck.Client, not {clients!r}"[:200] + ".")
    for number, each in enumerate(clients):
        if not isinstance(each, Client):
            raise ConfigError(
                f"clients: number {number} is a {type(each).__name__}. Make each by potluck.Client(model, "
                "train=(inputs, labels))."
            )
    return list(clients)


def _path_of(out: object) -> Path | None:
    """The folder of a run as it was given."""
    if out is None:
        return None
    if not isinstance(out, str | Path) or not str(out) or "\0" in str(out):
        raise ConfigError(f"out: {out!r} is not the path of a folder.")
    return Path(out)


@contextmanager
def _bar(rounds: int, done: int) -> Iterator[Watch]:
    """A live bar where somebody can see it: on standard error, for what a program prints is its own."""
    from rich.console import Console

    from potluck.report.progress import progress

    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        with progress(console, rounds, done) as watch:
            yield watch
    else:
        yield lambda _event: None


def _algorithm(algorithm: str | Algorithm | type[Algorithm], settings: dict[str, Any]) -> Algorithm:
    if isinstance(algorithm, type) and issubclass(algorithm, Algorithm):
        return algorithm(**settings)
    if isinstance(algorithm, str):
        own = algorithms.find(algorithm)
        for name in settings:
            if name not in own.model_fields:
                raise ConfigError(unknown(name, FederationConfig, own))
        return algorithms.algorithm(algorithm, settings)
    if not isinstance(algorithm, Algorithm):
        raise ConfigError(
            f"algorithm: give its name, a subclass of potluck.Algorithm or an instance of one, not {algorithm!r}."
        )
    if settings:
        raise ConfigError(
            f"unknown settings {', '.join(settings)}: an algorithm given as an instance has its own already."
        )
    return algorithm


def _bytes(direction: str, payloads: Sequence[Payload]) -> dict[str, int]:
    return {
        f"bytes_{direction}": sum(payload.encoded_bytes for payload in payloads),
        f"tensor_bytes_{direction}": sum(payload.tensor_bytes for payload in payloads),
    }
