"""The commands that judge changes, as `bench` names them; each reads as its pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

JsonOut = Annotated[Path | None, typer.Option("--json", help="Write every finding as JSON; - prints it.")]
JunitOut = Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML.")]
MarkdownOut = Annotated[Path | None, typer.Option("--markdown", help="Write a summary of at most 64 KiB.")]
GithubOut = Annotated[bool, typer.Option("--github", help="Print annotations for GitHub Actions.")]
FailUndecided = Annotated[
    bool, typer.Option("--fail-on-undecided", help="Exit with 5 where nothing else failed.")
]
console = Console(markup=False, highlight=False)


def check(
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Folders of `bench run`, one a process.")
    ],
    baseline: Annotated[
        str, typer.Option(help="A run, a folder of baselines, or git:REF[:PATH] of one.")
    ] = "baselines",
    only: Annotated[list[str], typer.Option(help="Judge only implementations that match. Repeatable.")] = [],  # noqa: B006
    reference: Annotated[str, typer.Option(help="Implementation that the ratios are to.")] = "",
    confirm: Annotated[
        bool, typer.Option("--confirm/--no-confirm", help="Measure a breach again in fresh paired runs.")
    ] = True,
    machine_code: Annotated[
        Path | None, typer.Option(help="Also judge kernels: a file of `bench inspect --save`.")
    ] = None,
    machine_code_baseline: Annotated[Path | None, typer.Option(help="… against this one.")] = None,
    json: JsonOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    github: GithubOut = False,
    report: Annotated[Path | None, typer.Option(help="Write the run's page with its regressions.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Show what stayed the same as well.")] = False,
    fail_on_undecided: FailUndecided = False,
) -> None:
    """Judge a run against a baseline: exit 0 pass, 1 slower, 3 failing or missing, 4 not comparable."""
    from harness.commands.check import CheckRequest, check_run
    from harness.gate.compare import Options
    from harness.gate.delivery import Outputs

    request = CheckRequest(
        tuple(run_folders), baseline, Options(tuple(only), reference), confirm, machine_code,
        machine_code_baseline, report,
    )  # fmt: skip
    outputs = Outputs(json, junit, markdown, github, every, fail_on_undecided)
    raise typer.Exit(check_run(request, outputs, console))


def ab(
    base: Annotated[str, typer.Argument(metavar="BASE", help="A git ref, or a plugin file ending in .py.")],
    head: Annotated[
        str | None, typer.Argument(metavar="[HEAD]", help="The same; the working tree by default.")
    ] = None,
    suite: Annotated[Path, typer.Option(help="The cases to compare.")] = Path("suites/smoke.yaml"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    only: Annotated[list[str], typer.Option(help="Only implementations that match. Repeatable.")] = [],  # noqa: B006
    skip: Annotated[list[str], typer.Option(help="Leave out implementations that match.")] = [],  # noqa: B006
    settings: Annotated[list[str], typer.Option("--set", help="Replace an axis, e.g. seq_len=512.")] = [],  # noqa: B006
    plugin: Annotated[list[Path], typer.Option("--plugin", help="A file that joins on both sides.")] = [],  # noqa: B006
    allow_busy: Annotated[
        bool, typer.Option("--allow-busy", help="Measure beside others all the same.")
    ] = False,
    json: JsonOut = None,
    junit: JunitOut = None,
    markdown: MarkdownOut = None,
    github: GithubOut = False,
    every: Annotated[bool, typer.Option("--all", help="Show what stayed the same as well.")] = False,
    fail_on_undecided: FailUndecided = False,
) -> None:
    """Compare two builds on this device, their samples interleaved, with controls."""
    from harness.commands.ab import AbRequest, compare_builds
    from harness.gate.delivery import Outputs

    request = AbRequest(
        base, head, suite, device, tuple(only), tuple(skip), tuple(settings), tuple(plugin), allow_busy
    )
    outputs = Outputs(json, junit, markdown, github, every, fail_on_undecided)
    raise typer.Exit(compare_builds(request, outputs, console))


def selfcheck(
    quick: Annotated[bool, typer.Option("--quick", help="One pair of processes, few verdicts.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    sessions: Annotated[int | None, typer.Option(min=1, help="Fresh pairs of processes.")] = None,
    verdicts: Annotated[
        int | None, typer.Option(min=1, help="Verdicts of A against A in each; a third of each slowdown.")
    ] = None,
    json: JsonOut = None,
    fail_on_undecided: FailUndecided = False,
) -> None:
    """Prove the gate here: false alarms, known slowdowns found, faults that must turn it red."""
    from harness.commands.selfcheck import check_self
    from harness.gate.selfcheck import FULL, QUICK, Size

    usual = QUICK if quick else FULL
    unchanged = verdicts or usual.unchanged
    slowed = max(1, unchanged // 3) if verdicts else usual.slowed
    size = Size(sessions or usual.sessions, unchanged, slowed)
    raise typer.Exit(check_self(device, quick, size, json, fail_on_undecided, console))


baseline_app = typer.Typer(
    no_args_is_help=True, help="Baselines: accept a run, list them, prune what is gone.", add_completion=False
)
Into = Annotated[Path, typer.Option("--into", help="The folder of baselines.")]


@baseline_app.command("accept")
def accept(
    run_folders: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Folders of `bench run`, one a process.")
    ],
    reason: Annotated[str, typer.Option(help="Why these values are right.")],
    into: Into = Path("baselines"),
    by: Annotated[str, typer.Option(help="Who accepts; git's user by default.")] = "",
) -> None:
    """Add runs to the baseline of their suite and device: one value a process, five for a spread."""
    from harness.commands.baseline import accept_runs

    accept_runs(run_folders, reason, into, by, console)


@baseline_app.command("list")
def list_baselines(into: Into = Path("baselines")) -> None:
    """What each baseline holds, and who accepted it when and why."""
    from harness.commands.baseline import show_baselines

    show_baselines(into, console)


@baseline_app.command("prune")
def prune(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run whose cases are the ones that are left.")
    ],
    into: Into = Path("baselines"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go.")] = False,
) -> None:
    """Drop the cases that a run no longer has."""
    from harness.commands.baseline import prune_baseline

    prune_baseline(run_folder, into, dry_run, console)


def export(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A folder of `bench run`.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="pytest-benchmark, google-benchmark, bencher, custom-smaller-is-better or asv."
        ),
    ],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The file; standard output.")] = None,
) -> None:
    """Write a run in the format of another tool."""
    from harness.commands.export import export_run

    export_run(run_folder, form, output, console)


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A JSON file of another tool.")],
    form: Annotated[str, typer.Option("--format", help="pytest-benchmark, google-benchmark or bencher.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    device: Annotated[
        str, typer.Option(help="The device that was measured, as baselines name it.")
    ] = "imported",
) -> None:
    """Write another tool's file as a run folder, for `bench check`."""
    from harness.commands.export import import_file

    import_file(path, form, out, device, console)


def register(app: typer.Typer) -> None:
    """Add the commands to `bench`."""
    app.command()(check)
    app.command()(ab)
    app.command()(selfcheck)
    app.command()(export)
    app.command("import")(import_)
    app.add_typer(baseline_app, name="baseline")
