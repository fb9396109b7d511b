"""The page in a real browser: scripts on and off, light, dark, print and phone, offline, under axe-core."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from harness.counting.certificates import Certificate, CertifiedFamily
from harness.counting.polynomial import Polynomial
from harness.report import page as report_page

from . import chromium, synthetic

STRICT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
PHONE, DESK = {"width": 390, "height": 800}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    axes = {"seq_len": synthetic.SIZES, "dtype": ("float32", "bfloat16")}
    path.write_text(report_page(synthetic.description(), synthetic.rows(axes)), "utf-8")
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All kinds of content, few rows: axe-core looks at every cell."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    rows = list(synthetic.rows({"seq_len": synthetic.SIZES[::2]}))
    case = next(r.case for r in rows if r.case.implementation == "naive")
    found, held = ((256,), (512,), (768,)), ((1024,),)
    square = Polynomial(("n",), {(2,): Fraction(8)})
    certificate = Certificate("naive", "peak_bytes", "B", square, "float32", found, held)
    certified = [CertifiedFamily(case, (), (certificate,), {})]
    path.write_text(report_page(synthetic.description(), rows, certified), "utf-8")
    return path


@contextmanager
def opened(browser: Browser, file: Path, **options: Any) -> Iterator[tuple[Page, list[str], list[str]]]:
    """The page with, as they come up, what it complained of and what it asked the network for."""
    context = browser.new_context(offline=True, **({"viewport": DESK} | options))
    complaints: list[str] = []
    requests: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    try:
        yield page, complaints, requests
    finally:
        context.close()


def visible_words(page: Page) -> str:
    return " ".join(page.locator("main").inner_text().split())


@pytest.mark.parametrize("scripts", [True, False])
def test_it_opens_offline_asks_for_nothing_and_complains_of_nothing(
    browser: Browser, file: Path, scripts: bool
) -> None:
    with opened(browser, file, java_script_enabled=scripts) as (page, complaints, requests):
        assert page.locator("h1").count() == 1
        assert (page.locator(".tools").count() > 0) is scripts
        assert complaints == []
        assert requests == [file.as_uri()]


def test_everything_is_there_without_a_script(browser: Browser, file: Path) -> None:
    with opened(browser, file, java_script_enabled=False) as (plain, _, _):
        cells = plain.locator("table td, table th").all_text_contents()
        figures = plain.locator("svg").count()
    with opened(browser, file) as (scripted, _, _):
        assert sorted(scripted.locator("table td, table th").all_text_contents()) == sorted(cells)
        assert scripted.locator("svg").count() == figures > 0
    assert synthetic.HOSTILE in cells


def test_it_renders_under_a_policy_that_forbids_scripts(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    headers = {"content-security-policy": STRICT, "content-type": "text/html; charset=utf-8"}
    page.route("**", lambda route: route.fulfill(body=file.read_text("utf-8"), headers=headers))
    page.goto("http://page.test/")
    assert [words for words in complaints if "script" not in words.lower()] == []
    box = page.locator("svg").first.bounding_box()
    assert box is not None
    assert box["width"] > 300
    assert page.locator("svg [fill], svg [style]").count() > 0
    context.close()


@pytest.mark.parametrize(("scheme", "size"), [("light", DESK), ("dark", PHONE)], ids=["desk", "phone"])
def test_axe_finds_nothing(browser: Browser, small: Path, scheme: str, size: dict[str, int]) -> None:
    with opened(browser, small, color_scheme=scheme, viewport=size, bypass_csp=True) as (page, _, _):
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        assert chromium.axe_violations(page) == []


def test_axe_would_find_something(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><title>x</title><p style='color:#ddd'>pale</p><img src=data:,>")
    with opened(browser, bad, bypass_csp=True) as (page, _, _):
        found = " ".join(chromium.axe_violations(page))
    assert "color-contrast" in found
    assert "image-alt" in found


def _luminance(page: Page, what: str) -> float:
    colour = page.evaluate(f"getComputedStyle(document.body).{what}")
    red, green, blue = (float(part) for part in colour.strip("rgb()").split(","))
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def test_dark_is_dark_light_is_light_and_print_is_light(browser: Browser, file: Path) -> None:
    with opened(browser, file, color_scheme="light") as (page, _, _):
        assert _luminance(page, "backgroundColor") > 0.9 > 0.2 > _luminance(page, "color")
    with opened(browser, file, color_scheme="dark") as (page, _, _):
        assert _luminance(page, "backgroundColor") < 0.2 < 0.8 < _luminance(page, "color")
        page.emulate_media(media="print")
        assert _luminance(page, "backgroundColor") > 0.9


@pytest.mark.parametrize("scripts", [True, False])
def test_print_shows_what_is_folded_and_hides_the_tools(browser: Browser, file: Path, scripts: bool) -> None:
    with opened(browser, file, java_script_enabled=scripts) as (page, _, _):
        page.emulate_media(media="print")
        folded = page.locator("details table")
        assert folded.count() > 0
        for number in range(folded.count()):
            box = folded.nth(number).bounding_box()
            assert box is not None
            assert box["height"] > 10
        for tools in page.locator("nav, .tools, .button").all():
            assert not tools.is_visible()
        assert page.pdf().startswith(b"%PDF")


def test_evidence_opens_on_the_screen_and_stands_open_in_print(browser: Browser, small: Path) -> None:
    with opened(browser, small, java_script_enabled=False) as (page, _, _):
        polynomial, evidence = page.locator(".more > summary").first, page.locator(".more > small").first
        assert polynomial.inner_text() == "8n²"
        assert not evidence.is_visible()
        polynomial.click()
        assert evidence.is_visible()
        assert "the one polynomial through the counts" in evidence.inner_text()
        polynomial.click()
        page.emulate_media(media="print")
        assert polynomial.is_visible()
        box = evidence.bounding_box()
        assert box is not None
        assert box["height"] > 10


def test_a_phone_scrolls_in_one_direction(browser: Browser, file: Path) -> None:
    with opened(browser, file, viewport=PHONE) as (page, _, _):
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_sorting_goes_by_size_and_leaves_blanks_last(browser: Browser, file: Path) -> None:
    with opened(browser, file) as (page, _, _):
        table = page.locator("#data-table")
        heads = table.locator("thead th").all_text_contents()
        column = next(k for k, head in enumerate(heads) if head.startswith("CPU time"))
        body = table.locator(f"tbody tr > :nth-child({column + 1})")
        for descending in (False, True):
            table.locator("thead button").nth(column).click()
            values = body.all_text_contents()
            known = [float(value) for value in values if value]
            assert known == sorted(known, reverse=descending)
            assert values[: len(known)] == [value for value in values if value]
            assert len(known) < len(values)


def test_filtering_keeps_the_rows_that_match(browser: Browser, file: Path) -> None:
    with opened(browser, file) as (page, _, _):
        table = page.locator("#data-table")
        tools = page.locator(".tools").last
        tools.get_by_label("implementation").select_option("flex")
        tools.get_by_label("Filter").fill("bfloat16")
        shown = [row for row in table.locator("tbody tr").all() if row.is_visible()]
        assert len(shown) == len(synthetic.SIZES)
        assert all("flex" in row.inner_text() and "bfloat16" in row.inner_text() for row in shown)
        assert "8 of 128 rows" in tools.inner_text()


def test_a_series_can_be_hidden_in_every_figure(browser: Browser, file: Path) -> None:
    with opened(browser, file) as (page, _, _):
        lines = page.locator('svg .line[data-series="0"]')
        assert lines.count() > 1
        page.get_by_label("naive", exact=True).uncheck()
        assert not any(line.is_visible() for line in lines.all())
        assert page.locator('svg .line[data-series="2"]').first.is_visible()


def test_a_flop_convention_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "causal.html"
    axes = {"seq_len": (64, 128), "causal": (False, True)}
    file.write_text(report_page(synthetic.description(), synthetic.rows(axes)), "utf-8")
    with opened(browser, file) as (page, _, _):
        heads = page.locator("#efficiency-table thead th")
        whole = heads.all_inner_texts()
        page.get_by_label("FLOP convention").select_option("PyTorch")
        shown = [head.inner_text() for head in heads.all() if head.is_visible()]
        assert [head for head in shown if "FLOP/s" in head] == ["FLOP/s, PyTorch"]
        page.get_by_label("FLOP convention").select_option("")
        assert [head.inner_text() for head in heads.all() if head.is_visible()] == whole


def test_the_downloads_hold_the_rows(browser: Browser, file: Path) -> None:
    with opened(browser, file, accept_downloads=True) as (page, _, _):
        with page.expect_download() as waiting:
            page.get_by_text("Download CSV").click()
        assert waiting.value.suggested_filename == "synthetic.csv"
        rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text("utf-8"))))
        assert len(rows) == 2 * len(synthetic.SIZES) * len(synthetic.CARDS)
        assert {row["implementation"] for row in rows} == {card.name for card in synthetic.CARDS}


def test_no_browser_is_an_error_that_names_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match="apt-get install chromium"):
        chromium.executable()
