"""How long does a round take: on Potluck's engines, and as research code usually runs it?

    python -m benchmarks.engines --data-dir DIR [--device cuda] [--methods pfedes fedproto fml] [--batch-sizes 512 32]
    python -m benchmarks.engines --data-dir DIR --methods fedclassavg --models resnet-18,googlenet

Ten clients with CNN-1 to CNN-5, or other networks, and the released augmentation train for a round; rounds of all ways
are run in turn, the same clients in each, and the median of several is printed with its ratio to that of research code,
or to loop: there is research code for CNN-1 to CNN-5 with pFedES, FedProto and FML. Only loop on a GPU trains other
clients, if the rest settles for several rounds: it has nothing to record, and takes long.

Beside it stands what the arithmetic alone would take at the device's speed in large matrix products, and the memory
alone at its speed in copying, if every operation read its inputs and wrote its outputs once; both speeds are measured
in the same run. Without CIFAR-10 at hand images are noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import torch

from benchmarks import research
from benchmarks.noise import images
from benchmarks.traffic import traffic
from potluck.config import FederationConfig, make_config
from potluck.data.sources import Source
from potluck.data.transform import Transform
from potluck.engines.precision import Precision
from potluck.experiment import make_clients
from potluck.federation import Federation
from potluck.models import assignment

_MODELS, _METHODS = "cnn-1..5", ("pfedes", "fedproto", "fml")
"""Those that research code is there for."""


def main() -> None:
    """Measure everything that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--methods", nargs="+", default=list(_METHODS))
    parser.add_argument("--models", default=_MODELS, help="networks of the clients, with commas between them")
    parser.add_argument("--clients", nargs="+", type=int, default=[100, 10])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[512, 32])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count, after those that do not")
    parser.add_argument("--settle", type=int, help="rounds that do not count; 12 on a GPU, which records steps, else 1")
    parser.add_argument("--without-research", action="store_true")
    arguments = parser.parse_args()
    if arguments.settle is None:
        arguments.settle = 12 if _on_gpu(arguments.device) else 1
    source = images(arguments.data_dir)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads; images: {source.name}")
    for method in arguments.methods:
        for clients in arguments.clients:
            for batch in arguments.batch_sizes:
                _compare(method, clients, batch, source, arguments)


def _compare(method: str, clients: int, batch: int, source: Source, arguments: argparse.Namespace) -> None:
    ways: dict[str, Callable[[], float]] = {}
    federations = {
        f"{engine}, {precision}": _federation(method, engine, precision, clients, batch, source, arguments)
        for engine, precision in _ways(arguments.device)
    }
    for name, federation in federations.items():
        ways[name] = _timed(federation)
    any_run = next(run for name, run in federations.items() if not name.startswith("loop"))
    if not arguments.without_research and method in _METHODS and arguments.models == _MODELS:
        ways["research code"] = _research(method, any_run, batch, arguments)
    for name, way in ways.items():
        # Research code begins with a later round anyway.
        once = name == "research code" or (name.startswith("loop") and any_run.device.type == "cuda")
        for _ in range(1 if once else arguments.settle):
            way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            seconds[name].append(way())
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    last = any_run.history.rounds[-1]
    flops = last["flops"] - last["server_flops"]  # the server has no part in what the engines are compared by
    speed = _speed(any_run.setting.precision, any_run.device)
    cohort = f"{any_run.cohort_size} of {clients} clients in a round"
    print(f"\n{method}, {cohort}, batches of {batch}, {arguments.epochs} local epochs")
    base = "research code" if "research code" in medians else next(iter(medians))
    for name, median in medians.items():
        print(f"  {name:<18}{median:8.3f} s   {medians[base] / median:6.1f} times as fast as {base.split(',')[0]}")
    print(f"  {'arithmetic alone':<18}{flops / speed:8.3f} s   {flops / 1e9:,.0f} GFLOP at {speed / 1e9:,.0f} GFLOP/s")
    size, rate = traffic(any_run, arguments.rounds), _rate(any_run.device)
    print(f"  {'memory alone':<18}{size / rate:8.3f} s   {size / 1e9:,.0f} GB at {rate / 1e9:,.0f} GB/s")
    for name, federation in federations.items():
        for note in federation.engine.notes:
            print(f"  {name}: {note}")


def _ways(device: str) -> list[tuple[str, str]]:
    precisions = ["tf32", "bf16"] if _on_gpu(device) else ["float32", "bf16"]
    return [*((engine, precisions[0]) for engine in ("loop", "stacked", "auto")), ("auto", precisions[1])]


def _on_gpu(device: str) -> bool:
    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def _federation(
    method: str, engine: str, precision: str, clients: int, batch: int, source: Source, arguments: argparse.Namespace
) -> Federation:
    own = {"extractor_epochs": 2 * arguments.epochs} if method == "pfedes" else {}
    config = make_config({
        "algorithm": {"name": method, **own}, "data": "cifar-10", "evaluate_every": 10**6, "clients": clients,
        "fraction": 10 / clients, "batch_size": batch, "models": arguments.models, "engine": engine,
        "precision": precision, "device": arguments.device, "epochs": arguments.epochs,
    })  # fmt: skip
    plain = config.model_dump(include=set(FederationConfig.model_fields))
    transform = Transform(source.mean, source.std, config.augmentation)
    return Federation(config.method(), make_clients(config, source), transform=transform, **plain)


class _RoundOverError(Exception):
    """Ends a run after the round that was to be timed."""


def _timed(federation: Federation) -> Callable[[], float]:
    def watch(event: dict[str, object]) -> None:
        if event["event"] == "round":
            raise _RoundOverError

    def run() -> float:
        # One round of a run that would be longer: in the last round of a run all clients are evaluated.
        with suppress(_RoundOverError):
            federation.run(len(federation.history.rounds) + 2, watch=watch)
        seconds: float = federation.history.rounds[-1]["seconds"]
        return seconds

    return run


def _research(method: str, federation: Federation, batch: int, arguments: argparse.Namespace) -> Callable[[], float]:
    """Rounds of research code with the samples of the same clients."""
    numbers = count(arguments.settle)  # one that does not count; the others are those that count elsewhere

    def run() -> float:
        cohort = [federation.clients[client] for client in federation.cohort(next(numbers))]
        train = [(client.train.x, client.train.y) for client in cohort]
        test = [(client.test.x, client.test.y) for client in cohort]
        names = assignment(_MODELS)
        members = research.clients(train, test, [names[client.id % len(names)] for client in cohort], batch)
        begin = time.perf_counter()
        if method == "pfedes":
            research.pfedes(members, arguments.epochs, 2 * arguments.epochs)
        elif method == "fedproto":
            research.fedproto(members, arguments.epochs)
        else:
            research.fml(members, arguments.epochs)
        return time.perf_counter() - begin

    return run


def _rate(device: torch.device) -> float:
    """Bytes per second, read and written, when a large tensor is copied."""
    one = torch.zeros(1 << (28 if device.type == "cuda" else 25), device=device)
    other = torch.empty_like(one)
    return 2 * one.nbytes / _best(lambda: other.copy_(one), device)


def _best(work: Callable[[], object], device: torch.device) -> float:
    """The least of the times that something takes."""
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def _speed(precision: Precision, device: torch.device) -> float:
    """Operations per second in large matrix products of float32, with factors rounded to tf32 where a run does that."""
    size = 4096 if device.type == "cuda" else 1024
    one = torch.randn(size, size, device=device)
    with precision.working():
        return 2 * size**3 / _best(lambda: one @ one, device)


if __name__ == "__main__":
    main()
