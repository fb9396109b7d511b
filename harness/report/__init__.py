"""Records → tables and figures → one self-contained page. Never imports torch."""

from harness.report.page import page, render

__all__ = ["page", "render"]
