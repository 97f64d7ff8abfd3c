"""Numbers as a person wants to read them."""

from __future__ import annotations


def percent(value: float | None) -> str:
    """An accuracy in percent; a dash where there is none.

    >>> percent(0.87654), percent(None)
    ('87.65', '-')
    """
    return "-" if value is None else f"{100 * value:.2f}"


def size(count: int) -> str:
    """A number of bytes, to three digits.

    >>> size(900), size(1772), size(498_000), size(5 << 20)
    ('900 B', '1.73 KiB', '486 KiB', '5.00 MiB')
    """
    number, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= 1024 and len(units) > 1:
        number /= 1024
        units.pop(0)
    decimals = 0 if units[0] == "B" or number >= 99.95 else 1 if number >= 9.995 else 2
    return f"{number:.{decimals}f} {units[0]}"


def operations(count: int) -> str:
    """A number of floating-point operations.

    >>> operations(0), operations(57_072_752_640)
    ('0', '57.1 G')
    """
    number, units = float(count), ["", "k", "M", "G", "T", "P", "E"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.3g} {units[0]}".rstrip()


def short(text: str, most: int = 24) -> str:
    r"""A name that is not too long for a table or a picture, and on one line.

    >>> short("a\nb"), short("the name of a class that goes on and on")
    ('a?b', 'the name of a class tha…')
    """
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def duration(seconds: float) -> str:
    """A stretch of time.

    >>> duration(3.2), duration(75), duration(7300)
    ('3.2 s', '1:15', '2:01:40')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
