"""Figures for papers: three kinds of file, the page's light colours, the same bytes each time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli import main
from harness.report import figures_to, svg
from harness.report.papers import CAPTIONS, LIGHT, SERIES
from harness.types import BenchError

from . import synthetic


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    axes = {"seq_len": synthetic.SIZES[1:]}
    return synthetic.write(folder / "run", synthetic.description(), synthetic.rows(axes))


@pytest.fixture(scope="module")
def written(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return figures_to(run_folder, tmp_path_factory.mktemp("figures") / "new")


def test_each_figure_is_written_in_three_kinds(written: tuple[Path, ...]) -> None:
    names = {path.stem for path in written if path.name != CAPTIONS}
    assert names == {
        "cpu_time",
        "peak_live_bytes",
        "error",
        "error_ratio",
        "pareto-peak_live_bytes",
        "pareto-error",
    }
    for name in names:
        assert {p.suffix for p in written if p.stem == name} == {".svg", ".pdf", ".png"}
    starts = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG", ".md": b"![CPU"}
    for path in written:
        assert path.read_bytes().startswith(starts[path.suffix])


def test_the_same_run_gives_the_same_bytes(
    run_folder: Path, written: tuple[Path, ...], tmp_path: Path
) -> None:
    for one, other in zip(written, figures_to(run_folder, tmp_path), strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_colours_are_those_of_the_page_in_light(written: tuple[Path, ...]) -> None:
    style = (Path(svg.__file__).parent / "style.css").read_text("utf-8")
    light = style.partition("@media")[0]
    for number, colour in enumerate(SERIES):
        assert f"--s{number}: {colour};" in light
    for path in written:
        if path.suffix == ".svg":
            source = path.read_text("utf-8")
            ElementTree.fromstring(source)
            assert SERIES[0] in source
            assert not [colour for colour in LIGHT if colour in source]


def test_captions_hold_names_as_text(written: tuple[Path, ...]) -> None:
    words = written[-1].read_text("utf-8")
    assert "M out of memory" in words
    assert "(cpu_time.svg)" in words
    assert "<img" not in words.replace("\\<", "")


def test_a_folder_that_cannot_be_is_a_sentence(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="figures cannot be written there"):
        figures_to(run_folder, tmp_path / "file")


def test_the_command_writes_page_and_figures(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["report", str(run_folder), "-o", str(tmp_path / "page.html"), "--figures", str(tmp_path)]
    with pytest.raises(SystemExit) as done:
        main(arguments)
    assert done.value.code == 0
    assert (tmp_path / "page.html").exists()
    assert len(list(tmp_path.glob("*.svg"))) == 6
    assert "figures: 19 files" in capsys.readouterr().out
