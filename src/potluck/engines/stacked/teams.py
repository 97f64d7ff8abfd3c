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


def in_powers(count: int, most: int) -> list[slice]:
    """``count`` clients in parts of 1, 2, 4, 8 and so on, the largest first, none above ``most``.

    >>> [part.stop - part.start for part in in_powers(7, 100)], [part.stop - part.start for part in in_powers(5, 3)]
    ([4, 2, 1], [2, 2, 1])
    """
    parts: list[slice] = []
    start = 0
    while start < count:
        size = 1 << (min(count - start, max(most, 1)).bit_length() - 1)
        parts.append(slice(start, start + size))
        start += size
    return parts


def power_above(count: int) -> int:
    """The power of two that has room for ``count`` clients.

    >>> [power_above(count) for count in (1, 2, 3, 17)]
    [1, 2, 4, 32]
    """
    return 1 << max(count - 1, 0).bit_length()


def halved(count: int, room: int) -> int:
    """The smallest of ``room``, its half, the half of that and so on that has room for ``count`` clients.

    >>> [halved(count, 16) for count in (16, 9, 8, 3, 1)]
    [16, 16, 8, 4, 1]
    """
    while room > 1 and -(-room // 2) >= count:
        room = -(-room // 2)
    return room
