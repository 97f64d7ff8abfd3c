"""Watching a run: what it tells while it goes, and who may listen."""

from potluck.watching.callback import Callback, Watch, together

__all__ = ["Callback", "Watch", "together"]
