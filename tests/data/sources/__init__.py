"""Tests of potluck.data.sources."""
