"""What matplotlib wrote → what a page can hold: CSS colours, real texts, titles, no stray identifiers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from xml.etree import ElementTree

from harness.report.slim import slim

COLOURS = 7
#: Placeholder colours, each replaced by a CSS variable so that the page's scheme decides.
INK, FAINT, GRID, PAPER = "#010203", "#010204", "#010205", "#010206"
_SVG, _XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
_VARIABLES = {INK: "currentColor", FAINT: "var(--faint)", GRID: "var(--grid)", PAPER: "var(--paper)"}


class Dot(Protocol):
    """A drawn point: its tooltip, and whether it is drawn hollow."""

    @property
    def title(self) -> str:
        """The tooltip."""

    @property
    def hollow(self) -> bool:
        """Whether the marker is not filled."""


class Line(Protocol):
    """The points of one implementation; index: its fixed place in the palette."""

    @property
    def index(self) -> int:
        """The place in the palette."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def points(self) -> Sequence[Dot]:
        """Its points in the order in which they are drawn."""


class Drawing(Protocol):
    """Anything that becomes a figure."""

    @property
    def key(self) -> str:
        """Identifies it on the page."""

    @property
    def title(self) -> str:
        """What is drawn."""

    @property
    def description(self) -> str:
        """The figure in words."""

    @property
    def series(self) -> Sequence[Line]:
        """What is drawn."""


def series_colour(index: int) -> str:
    """The placeholder of a series' colour."""
    return f"#0203{index % COLOURS:02x}"


@dataclass(slots=True)
class Texts:
    """Texts are drawn as short keys, so that no name is measured, parsed or mistaken for mathematics."""

    words: list[tuple[str, str]] = field(default_factory=list)

    def add(self, text: str, title: str = "") -> str:
        """The key under which the text is drawn; `title` is its tooltip."""
        self.words.append((text, title))
        return f"T{len(self.words) - 1}"

    def __getitem__(self, key: str) -> tuple[str, str]:
        return self.words[int(key[1:])]


def dress(source: str, chart: Drawing, texts: Texts) -> str:
    """One <svg> element: title, description, tooltips on points, colours from CSS, ids only where used."""
    root = ElementTree.fromstring(source)
    _drop_noise(root)
    _mark_series(root, chart)
    _write_texts(root, texts)
    _recolour(root)
    _identify(root, chart.key)
    _label(root, chart)
    slim(root)
    return _serialise(root)


def _drop_noise(root: ElementTree.Element) -> None:
    """Remove the metadata and matplotlib's own style sheet."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}metadata" or (child.tag == f"{_SVG}style"):
                parent.remove(child)


def _mark_series(root: ElementTree.Element, chart: Drawing) -> None:
    """Put class and data-series on each series' parts, and a title on each of its points."""
    by_index = {series.index: series for series in chart.series}
    for element in root.iter():
        match = re.fullmatch(r"series-(\d+)-(\w+)", element.get("id", ""))
        if match:
            series, part = by_index[int(match[1])], match[2]
            element.set("class", f"s {part}")
            element.set("data-series", str(series.index))
            if part in ("points", "hollow"):
                _title_points(element, series, hollow=part == "hollow")


def _title_points(element: ElementTree.Element, series: Line, hollow: bool) -> None:
    points = [p for p in series.points if p.hollow is hollow]
    uses = list(element.iter(f"{_SVG}use"))
    for use, point in zip(uses, points, strict=True):
        ElementTree.SubElement(use, f"{_SVG}title").text = point.title


def _write_texts(root: ElementTree.Element, texts: Texts) -> None:
    for element in root.iter(f"{_SVG}text"):
        words, title = texts[(element.text or "").strip()]
        element.text = words
        if title:
            ElementTree.SubElement(element, f"{_SVG}title").text = title
        element.set("style", re.sub(r"font-family:[^;]*|font:[^;]*", _font, element.get("style", "")))


def _font(match: re.Match[str]) -> str:
    """The size and weight only: the family is the page's."""
    size = re.search(r"([\d.]+)px", match[0])
    weight = "font-weight:700;" if re.search(r"\b(bold|700)\b", match[0]) else ""
    return f"{weight}font-size:{size[1]}px" if size else weight


def _recolour(root: ElementTree.Element) -> None:
    for element in root.iter():
        for name in ("style", "fill", "stroke"):
            if value := element.get(name):
                element.set(
                    name, re.sub(r"#[0-9a-f]{6}", _variable, value).replace("; ", ";").replace(": ", ":")
                )


def _variable(match: re.Match[str]) -> str:
    colour = match[0]
    if colour.startswith("#0203"):
        return f"var(--s{int(colour[5:], 16)})"
    return _VARIABLES.get(colour, colour)


def _identify(root: ElementTree.Element, key: str) -> None:
    """Keep only the identifiers that something refers to, short and unique among the figures of a page."""
    short = {name: f"{_prefix(key)}{number}" for number, name in enumerate(dict.fromkeys(_references(root)))}
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in short:
            element.set("id", short[own])
        for name, value in list(element.attrib.items()):
            if name == f"{_XLINK}href":
                del element.attrib[name]
                element.set("href", f"#{short[value[1:]]}")
            elif "url(#" in value:
                element.set(name, re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{short[m[1]]})", value))


def _prefix(key: str) -> str:
    """What the identifiers of a figure begin with: a letter and a digest of its key."""
    return f"f{hashlib.sha256(key.encode()).hexdigest()[:6]}-"


def _references(root: ElementTree.Element) -> Iterable[str]:
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == f"{_XLINK}href":
                yield value[1:]
            elif "url(#" in value:
                yield from re.findall(r"url\(#([^)]+)\)", value)


def _label(root: ElementTree.Element, chart: Drawing) -> None:
    """An accessible name and description; the size comes from the style sheet."""
    identifier = _prefix(chart.key)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{identifier}title {identifier}desc")
    for tag, text in (("desc", chart.description), ("title", chart.title)):
        element = ElementTree.Element(f"{_SVG}{tag}", {"id": f"{identifier}{tag}"})
        element.text = text
        root.insert(0, element)


def _serialise(root: ElementTree.Element) -> str:
    """Inline SVG needs no namespace prefixes: the HTML parser knows the element."""
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


__all__: Sequence[str] = [
    "FAINT", "GRID", "INK", "PAPER", "Dot", "Drawing", "Line", "Texts", "dress", "series_colour",
]  # fmt: skip
