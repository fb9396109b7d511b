"""The page's figures as files for papers and READMEs: SVG, PDF and PNG in light colours, with captions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.report import illustrations, svg
from harness.report.canvas import style
from harness.report.figures import compose
from harness.report.illustrations import Drawing
from harness.report.markdown import escaped
from harness.report.runs import combined, read
from harness.types import BenchError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

DOTS_PER_INCH = 200
#: The page's light scheme (style.css): series, then ink, faint, grid and paper.
SERIES = ("#1f6fd1", "#c85a00", "#1b8040", "#b8358f", "#8a6a12", "#6a4fc2", "#00808a")
LIGHT: Mapping[str, str] = {
    svg.INK: "#1b1f24",
    svg.FAINT: "#737b84",
    svg.GRID: "#e4e7ea",
    svg.PAPER: "#ffffff",
} | {svg.series_colour(k): colour for k, colour in enumerate(SERIES)}
#: No dates and versions, so that the same run gives the same bytes.
METADATA: Mapping[str, Mapping[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
CAPTIONS = "captions.md"


class _Words(svg.Texts):
    """Texts drawn as they are."""

    def add(self, text: str, title: str = "") -> str:
        """The text itself; a file has no tooltips."""
        return text


def figures_to(run_folders: Path | Sequence[Path], directory: Path) -> tuple[Path, ...]:
    """Write each figure of one or several runs as SVG, PDF and PNG, with captions.md; the paths written.

    The same bytes for the same input and matplotlib. Raises UnreadableRun, and BenchError where the
    directory cannot be written.
    """
    records = combined(read([run_folders] if isinstance(run_folders, Path) else run_folders))
    drawings = illustrations.drawings(records)
    names = _names(drawings.all)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        paths = [path for name, chart in names.items() for path in _save(chart, directory / name)]
        captions = directory / CAPTIONS
        captions.write_text(_captions(names, drawings.undrawn), "utf-8")
    except OSError as error:
        raise BenchError(
            f"{directory}: figures cannot be written there: {error.strerror or error}"
        ) from error
    return (*paths, captions)


def _names(drawn: tuple[Drawing, ...]) -> dict[str, Drawing]:
    """File names without endings, each once."""
    names: dict[str, Drawing] = {}
    for chart in drawn:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", chart.key).strip("-.") or "figure"
        names[name if name not in names else f"{name}-{len(names)}"] = chart
    return names


def _save(chart: Drawing, stem: Path) -> list[Path]:
    with style(svg_fonttype="path", pdf_fonttype=42):
        figure = compose(chart, _Words())
        _lighten(figure)
        paths = [stem.with_name(f"{stem.name}.{kind}") for kind in METADATA]
        for path, (kind, known) in zip(paths, METADATA.items(), strict=True):
            metadata = {**known, "Title": chart.title}
            figure.savefig(path, format=kind, dpi=DOTS_PER_INCH, facecolor="white", metadata=metadata)
    return paths


def _lighten(figure: Figure) -> None:
    """Put the light scheme in place of the placeholders."""
    for artist in figure.findobj():
        for part in ("color", "markerfacecolor", "markeredgecolor", "edgecolor", "facecolor"):
            _recolour(artist, part)


def _recolour(artist: Artist, part: str) -> None:
    from matplotlib.colors import to_hex

    get, put = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
    if get is None or put is None:
        return
    value = get()
    several = getattr(value, "ndim", 1) == 2  # a collection has an array of colours
    colours = [to_hex(one) for one in (value if several else [value])]
    if any(colour in LIGHT for colour in colours):
        light = [LIGHT.get(colour, colour) for colour in colours]
        put(light if several else light[0])


def _captions(names: Mapping[str, Drawing], undrawn: str) -> str:
    """What to write under each figure, ready to paste."""
    parts = []
    for name, chart in names.items():
        notes = [chart.key_words, f"On each other: {chart.coincident}" if chart.coincident else ""]
        absent = "; ".join(f"{who} ({why})" for who, why in chart.missing)
        notes += [f"Not drawn: {absent}" if absent else "", chart.description.rstrip(".")]
        told = ". ".join(note for note in notes if note)
        parts.append(f"![{escaped(chart.title)}]({name}.svg)\n\n{escaped(f'{chart.title}. {told}.')}\n")
    return "\n".join([*parts, *([f"{undrawn}\n"] if undrawn else [])])
