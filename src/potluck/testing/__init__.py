"""Checks for algorithms, Potluck's own and anyone's."""

from potluck.testing.conformance import ConformanceError, check_algorithm

__all__ = ["ConformanceError", "check_algorithm"]
