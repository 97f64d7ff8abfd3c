"""Tests of potluck.data."""
