"""Records → tables and figures → one self-contained page. Never imports torch."""

from harness.report.page import page, render
from harness.report.papers import figures_to

__all__ = ["figures_to", "page", "render"]
