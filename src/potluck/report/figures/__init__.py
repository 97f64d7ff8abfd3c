"""The figures of a report, one file for each; each gives a :class:`~potluck.report.figures.base.Plot`."""
