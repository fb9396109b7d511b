"""Records → tables and figures → one self-contained page. Never imports torch."""

from harness.report.page import page, render
from harness.report.papers import figures_to
from harness.report.texts import csv_to, markdown_to

__all__ = ["csv_to", "figures_to", "markdown_to", "page", "render"]
