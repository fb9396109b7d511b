"""A real browser for the page: Debian's Chromium by its path, and axe-core from a package."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu")


def executable() -> str:
    """The path of a Chromium. Raises RuntimeError that says how to get one: the tests never skip."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise RuntimeError("no Chromium is installed, in which the page is tested: apt-get install chromium")
    return found


@contextmanager
def browsing() -> Iterator[Browser]:
    """One browser, for as long as the block lasts."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def axe_violations(page: Page) -> list[str]:
    """What axe-core finds wrong with an open page, a line each; its context must bypass the page's policy."""
    spec = importlib.util.find_spec("axe_playwright_python")
    assert spec is not None
    assert spec.origin is not None
    page.add_script_tag(path=Path(spec.origin).with_name("axe.min.js"))
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    assert found["passes"], "axe-core did not run"
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:160]}"
        for violation in found["violations"]
        for node in violation["nodes"][:3]
    ]
