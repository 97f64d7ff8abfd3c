"""The report: one page that needs nothing else, and its figures as files."""

from potluck.report.page.write import write_report

__all__ = ["write_report"]
