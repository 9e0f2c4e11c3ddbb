"""The HTML report: one self-contained page for one or several results, one section a domain."""

from skipmap.profiling.report.page import render_report

__all__ = ["render_report"]
