"""HTML pages, each self-contained: the report about results, one section a domain, and the comparison of drafts."""

from skipmap.profiling.report.comparison import render_comparison
from skipmap.profiling.report.page import render_report

__all__ = ["render_comparison", "render_report"]
