"""Where a command prints: no text on it can steer the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from potluck.messages import visible


class SafeConsole(Console):
    """A console that writes control characters out; colours and live bars are its own."""

    def __init__(self, **settings: Any) -> None:
        # A path may hold what others take for the name of an emoji.
        super().__init__(emoji=False, **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        """Strings of tables and lines, before it is known how wide they are."""
        return super().render_str(visible(text, keep="\n"), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Everything else that comes to be printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text, keep="\n"), segment.style)
