"""Who steps together with whom."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise

from potluck.engines.base import Job


def kind(job: Job) -> tuple[str, Hashable]:
    """What clients that step together have in common: their architecture, and the types of their inputs."""
    client = job.client
    data = (client.train, client.validation, client.test, client.holdout)
    return client.architecture.key, tuple(examples.whole_x.dtype if len(examples) else None for examples in data)


def grouped(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs by kind, those with the most samples first."""
    groups: dict[Hashable, list[Job]] = {}
    for job in jobs:
        groups.setdefault(kind(job), []).append(job)
    return [sorted(group, key=lambda job: -len(job.client.train)) for group in groups.values()]


def cut(count: int, most: int) -> list[slice]:
    """``count`` clients in as few parts of at most ``most`` as possible, nearly equal.

    >>> cut(7, 3)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
    """
    parts = -(-count // max(most, 1))
    ends = [count * part // parts for part in range(parts + 1)]
    return [slice(start, stop) for start, stop in pairwise(ends)]


def rounded_up(count: int) -> int:
    """A number of clients that is likely to come again: at most a quarter more than there are.

    >>> [rounded_up(count) for count in (1, 5, 9, 17, 100)]
    [1, 5, 10, 20, 112]
    """
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def halved(count: int, room: int) -> int:
    """The smallest of ``room``, its half, the half of that and so on that has room for ``count`` clients.

    >>> [halved(count, 20) for count in (20, 11, 10, 3, 1)]
    [20, 20, 10, 3, 1]
    """
    while room > 1 and -(-room // 2) >= count:
        room = -(-room // 2)
    return room
