"""Operations of stacked clients that libraries are slow at, or have no stacked form of."""

from potluck.engines.stacked.operations.mode import Operations

__all__ = ["Operations"]
