"""`bench`: each command reads as its pipeline. Heavy imports happen inside the commands."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from harness.commands import gates
from harness.types import BenchError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="What attention really costs: measure, check, certify and report.",
)
# Names and messages may hold brackets: nothing is taken for markup.
console = Console(markup=False, highlight=False)

SuiteFile = Annotated[Path, typer.Argument(help="A suite, such as suites/seq_scaling.yaml.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
Plugins = Annotated[
    list[Path], typer.Option("--plugin", help="A Python file whose implementations join. Repeatable.")
]


@app.command()
def run(
    suite: SuiteFile,
    device: DeviceOption = "auto",
    only: Annotated[
        list[str], typer.Option(help="Run only implementations that match, e.g. 'sdpa_*'. Repeatable.")
    ] = [],  # noqa: B006
    skip: Annotated[list[str], typer.Option(help="Leave out implementations that match. Repeatable.")] = [],  # noqa: B006
    settings: Annotated[
        list[str], typer.Option("--set", help="Replace an axis, e.g. seq_len=128,256. Repeatable.")
    ] = [],  # noqa: B006
    budget: Annotated[float | None, typer.Option(help="Seconds of measuring in all.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest unfinished run, or --out.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The run folder; results/… by default.")] = None,
    plugin: Plugins = [],  # noqa: B006
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show cases and predictions; run none.")] = False,
    report: Annotated[bool, typer.Option("--report", help="Write the page as well.")] = False,
) -> None:
    """Measure a suite."""
    from harness.commands.choice import Choice
    from harness.commands.measure import measure
    from harness.commands.preview import preview

    choice = Choice.read(
        suite, device, only=only, skip=skip, settings=settings, budget=budget, plugins=plugin
    )
    if dry_run:
        preview(choice, console)
        return
    folder = measure(choice, out, resume, console)
    if report:
        _write_report(folder, Path("reports") / f"{folder.name}.html")


@app.command()
def report(
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Folders that `bench run` wrote.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page; reports/RUN.html by default.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Also write each figure as SVG, PDF and PNG into this folder.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Also write a summary for a CI step, the most severe first.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write every stored number as CSV.")] = None,
) -> None:
    """Write the page of a run; of several runs on one page, overlaid where they share a machine."""
    _write_report(run_folders, output or Path("reports") / f"{_page_name(run_folders)}.html")
    from harness.report import csv_to, figures_to, markdown_to

    if figures is not None:
        written = figures_to(run_folders, figures)
        console.print(f"figures: {len(written)} files in {figures}", soft_wrap=True)
    for kind, write, path in (("summary", markdown_to, markdown), ("rows", csv_to, csv)):
        if path is not None:
            write(run_folders, path)
            console.print(f"{kind}: {path}", soft_wrap=True)


def _page_name(run_folders: list[Path]) -> str:
    more = f"-and-{len(run_folders) - 1}-more" if len(run_folders) > 1 else ""
    return f"{run_folders[0].resolve().name}{more}"


def _write_report(run_folders: Path | list[Path], output: Path) -> None:
    from harness.report import render

    render(run_folders, output)
    console.print(f"report: {output}", soft_wrap=True)


@app.command()
def table(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `bench run` wrote.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a claimed law is refuted.")
    ] = False,
) -> None:
    """The complexity table of a run: claimed, counted, measured, and the verdict."""
    from harness.commands.table import show_table

    show_table(run_folder, console, as_json=as_json, strict=strict)


@app.command()
def count(
    suite: SuiteFile,
    only: Annotated[list[str], typer.Option(help="Implementations that match. Repeatable.")] = [],  # noqa: B006
    skip: Annotated[list[str], typer.Option(help="Leave out implementations that match.")] = [],  # noqa: B006
    settings: Annotated[
        list[str], typer.Option("--set", help="Replace an axis, e.g. dtype=float16. Repeatable.")
    ] = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    save: Annotated[Path | None, typer.Option(help="Write the certificates as JSON.")] = None,
) -> None:
    """Certify growth by exact counting: each cost as a polynomial in the length, confirmed by equality."""
    from harness.commands.choice import Choice
    from harness.commands.count import certify_suite

    choice = Choice.read(suite, "cpu", only=only, skip=skip, settings=settings, plugins=plugin)
    certify_suite(choice, save, console)


@app.command()
def inspect(
    target: Annotated[
        list[str], typer.Option(help="sm_80 … sm_120, gfx90a …; all by default. Repeatable.")
    ] = [],  # noqa: B006
    only: Annotated[list[str], typer.Option(help="Implementations that match. Repeatable.")] = [],  # noqa: B006
    plugin: Plugins = [],  # noqa: B006
    baseline: Annotated[
        Path | None, typer.Option(help="Fail (exit 1) where a kernel became worse than in this file.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the figures as a baseline.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """The Triton kernels as GPU machine code, compiled ahead of time: no GPU is needed."""
    from harness.commands.inspect import inspect_kernels

    inspect_kernels(target, only, plugin, baseline, save, as_json, console)


@app.command()
def verify(
    only: Annotated[
        list[str], typer.Option(help="A section (§3, 9, wrong) or a pattern of a claim's words. Repeatable.")
    ] = [],  # noqa: B006
    save: Annotated[Path | None, typer.Option("--json", help="Also write the verdicts as JSON.")] = None,
) -> None:
    """Check every claim of the reference document: a number, a bound and PASS or FAIL."""
    from harness.commands.verify import verify as verify_claims

    verify_claims(only, save, console)


@app.command("list")
def list_(
    device: DeviceOption = "auto",
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """Every implementation: where it can run here and, if not, why."""
    from harness.commands.show import list_implementations

    list_implementations(device, plugin, console)


@app.command()
def info(device: DeviceOption = "auto") -> None:
    """The environment that a run here would record."""
    from harness.commands.show import show_environment

    show_environment(device, console)


gates.register(app)


def _terminated(number: int, frame: object) -> None:
    """Leave through every `finally`: worktrees and workers go."""
    sys.exit(128 + number)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: a BenchError is one line on standard error and its exit code."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    try:
        app(args=arguments, prog_name="bench")
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
