"""Make matplotlib's SVG small: a page holds a dozen figures."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

_SVG = "{http://www.w3.org/2000/svg}"
_GROUP, _DEFS, _USE, _PATH = f"{_SVG}g", f"{_SVG}defs", f"{_SVG}use", f"{_SVG}path"
#: Said once for all figures in the style sheet.
_DEFAULTS = (
    "stroke-linecap:square", "stroke-linecap:butt", "stroke-linejoin:round", "stroke-linejoin:miter",
    "stroke-dashoffset:0",
)  # fmt: skip
_TEXT_DEFAULTS = ("fill:currentColor", "font-size:11px")
_TEXTS = (f"{_SVG}text", f"{_SVG}title", f"{_SVG}desc")


def slim(root: Element) -> None:
    """Drop what draws nothing, share what repeats, shorten numbers. Texts stay as they are."""
    for element in root.iter():
        _shorten(element)
    _prune(root)
    for group in root.iter(_GROUP):
        _share_style(group)


def _shorten(element: Element) -> None:
    for name in ("d", "transform", "x", "y"):
        if value := element.get(name):
            element.set(name, _numbers(value))
    if style := element.get("style"):
        parts = [part.strip() for part in style.split(";")]
        said = _TEXT_DEFAULTS if element.tag == f"{_SVG}text" else _DEFAULTS
        _keep(element, "style", ";".join(p for p in parts if p and p not in said))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if element.tag not in _TEXTS:
        element.text = None
    element.tail = None


def _keep(element: Element, name: str, value: str) -> None:
    """Set an attribute, or remove one that says nothing."""
    if value:
        element.set(name, value)
    else:
        del element.attrib[name]


def _numbers(value: str) -> str:
    rounded = re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), value)
    return re.sub(r"\s*([A-Za-z,()])\s*", r"\1", rounded).strip() if value[:1] == "M" else rounded


def _prune(parent: Element) -> None:
    """Remove invisible paths and empty groups, and lift the children of groups that say nothing."""
    kept: list[Element] = []
    for child in list(parent):
        _prune(child)
        if child.tag == _PATH and parent.tag != _DEFS and child.get("style") == "fill:none":
            continue
        if child.tag in (_GROUP, _DEFS) and not len(child):
            continue
        kept += list(child) if child.tag == _GROUP and not child.attrib else [child]
    parent[:] = _merged(kept)


def _merged(children: list[Element]) -> list[Element]:
    """Neighbouring paths of one style, as one path."""
    merged: list[Element] = []
    for child in children:
        last = merged[-1] if merged else None
        if last is not None and child.tag == _PATH == last.tag and _same_stroke(last, child):
            last.set("d", last.get("d", "") + child.get("d", ""))
        else:
            merged.append(child)
    return merged


def _same_stroke(one: Element, other: Element) -> bool:
    plain = set(one.attrib) == set(other.attrib) == {"d", "style"}
    return plain and one.get("style") == other.get("style")


def _share_style(group: Element) -> None:
    """Move a style that all the marks of a group share to the group."""
    uses = [child for child in group if child.tag == _USE]
    styles = {use.get("style", "") for use in uses}
    if len(styles) == 1 and len(uses) + len(group.findall(_DEFS)) == len(group):
        for use in uses:
            use.attrib.pop("style", None)
        group.set("style", styles.pop())
