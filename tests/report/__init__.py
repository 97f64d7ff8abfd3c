"""Tests of potluck.report."""
