"""A judgement for machines and for people: JSON, JUnit, Markdown, workflow annotations. Pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from xml.etree import ElementTree

from harness.format import quantity
from harness.gate.findings import UNDECIDED, Finding, Judgement, Verdict

#: What a comment on a pull request may hold.
MOST_BYTES = 64 * 1024
_LEFT_OUT = "\n_{} more lines are left out; the JSON has every finding._\n"
_FAILING = frozenset({Verdict.NEWLY_FAILED, Verdict.MISSING, Verdict.SLOWER, Verdict.INCOMPARABLE})
#: What XML 1.0 cannot hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_json(judgement: Judgement, fail_on_undecided: bool) -> str:
    """Strict JSON: every finding, every exit code that applies, and the one that is returned."""
    codes = judgement.exit_codes(fail_on_undecided)
    data = {
        "schema": 1,
        "exit_code": codes[0],
        "exit_codes": list(codes),
        "undecided": UNDECIDED in judgement.exit_codes(True),
        "counts": dict(judgement.counts),
        **{name: value for name, value in asdict(judgement).items() if name != "findings"},
        "findings": [asdict(finding) for finding in judgement.ordered],
    }
    return json.dumps(data, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def as_junit(judgement: Judgement, fail_on_undecided: bool) -> str:
    """JUnit XML: one test case a finding, and one for each refusal and expired quarantine entry."""
    failing = _FAILING | ({Verdict.AMBIGUOUS} if fail_on_undecided else set())
    suite = ElementTree.Element("testsuite", name="bench check")
    counts = {"failures": 0, "skipped": 0}
    for finding in judgement.ordered:
        classname = _xml(finding.case)
        case = ElementTree.SubElement(
            suite, "testcase", classname=classname, name=_xml(finding.metric), time="0"
        )
        if finding.verdict in failing and not finding.advisory:
            counts["failures"] += 1
            _child(case, "failure", finding)
        elif finding.verdict in (Verdict.QUARANTINED, Verdict.AMBIGUOUS, Verdict.STILL_FAILED):
            counts["skipped"] += 1
            _child(case, "skipped", finding)
    for words in (*judgement.refusals, *judgement.expired):
        counts["failures"] += 1
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name=_xml(words), time="0")
        ElementTree.SubElement(case, "failure", message=_xml(words), type="gate")
    suite.attrib |= {"tests": str(len(suite)), "errors": "0", **{k: str(v) for k, v in counts.items()}}
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _child(case: ElementTree.Element, tag: str, finding: Finding) -> None:
    words = _xml(sentence(finding))
    ElementTree.SubElement(case, tag, message=words, type=str(finding.verdict)).text = words


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def sentence(finding: Finding) -> str:
    """Verdict, words and flags in one line."""
    flags = f" [{'; '.join(finding.flags)}]" if finding.flags else ""
    return f"{finding.verdict}: {finding.words}{flags}"


def as_annotations(judgement: Judgement, fail_on_undecided: bool) -> str:
    """Workflow commands of GitHub Actions, one a line: errors, then warnings. At most 10 of each show."""
    lines = [_command("error", "gate", words) for words in (*judgement.refusals, *judgement.expired)]
    for finding in judgement.ordered:
        failing = finding.verdict in _FAILING or (fail_on_undecided and finding.verdict is Verdict.AMBIGUOUS)
        level = "error" if failing and not finding.advisory else "warning"
        if finding.advisory or finding.verdict in _FAILING | {Verdict.AMBIGUOUS}:
            lines.append(_command(level, finding.case, sentence(finding)))
    lines += [_command("warning", "gate", words) for words in judgement.warnings]
    return "".join(f"{line}\n" for line in lines)


def _command(level: str, title: str, words: str) -> str:
    """Percent-encoded as the runner decodes it."""
    data = words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    name = title.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::{level} title={name.replace(':', '%3A').replace(',', '%2C')}::{data}"


def as_markdown(judgement: Judgement, fail_on_undecided: bool, most: int = MOST_BYTES) -> str:
    """A summary of at most 64 KiB: the answer and counts, then a table with the most severe first."""
    codes = judgement.exit_codes(fail_on_undecided)
    counts = (
        ", ".join(f"{count} {verdict}" for verdict, count in judgement.counts.items()) or "nothing compared"
    )
    title = "passed" if codes == (0,) else f"failed (exit {codes[0]})"
    lines = [f"### Performance gate {title}", "", f"{counts}. Baseline: {_md(judgement.baseline)}.", ""]
    for label, words in (
        ("Refused", judgement.refusals), ("Expired", judgement.expired), ("Note", judgement.notes),
        ("Next", judgement.advice),
    ):  # fmt: skip
        lines += [f"- **{label}:** {_md(text)}" for text in words]
    if judgement.changed:
        lines += [
            "",
            "| verdict | case | quantity | what | smallest change it detects |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(finding) for finding in judgement.changed]
    return _fitted(lines, most)


def _row(finding: Finding) -> str:
    verdict = f"{finding.verdict} (advisory)" if finding.advisory else str(finding.verdict)
    flags = f" — {'; '.join(finding.flags)}" if finding.flags else ""
    cells = (verdict, finding.case, finding.metric, finding.words + flags, smallest(finding))
    return f"| {' | '.join(map(_md, cells))} |"


def smallest(finding: Finding) -> str:
    """The smallest change that would be found, in words."""
    if finding.detectable is not None:
        return f"{finding.detectable:.1%}"
    if finding.threshold is not None and finding.metric == "time":
        return f"over {finding.threshold:.1%}; the spread is unknown"
    return "–"


def _md(words: str) -> str:
    return re.sub(r"([\\\[\]<>*_`|#~$&@])", r"\\\1", " ".join(words.split()))


def _fitted(lines: list[str], most: int) -> str:
    room = most - len(_LEFT_OUT.format(len(lines)).encode())
    kept: list[str] = []
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            return "\n".join(kept) + _LEFT_OUT.format(len(lines) - len(kept))
        kept.append(line)
    return "\n".join(kept) + "\n"


def rows(judgement: Judgement, everything: bool) -> Iterator[tuple[str, ...]]:
    """Rows of the terminal's table: verdict, case, quantity, change, before, after, smallest, words."""
    for finding in judgement.ordered if everything else judgement.changed:
        change = "–" if finding.change is None else f"{finding.change:+.1%}"
        sides = (_shown(finding.before, finding.unit), _shown(finding.after, finding.unit))
        flags = "".join(f"; {flag}" for flag in finding.flags)
        yield (
            str(finding.verdict), finding.case, finding.metric, change, *sides, _ratio(finding),
            smallest(finding), finding.words + flags,
        )  # fmt: skip


def _shown(value: float | None, unit: str) -> str:
    return "–" if value is None else quantity(value, unit or "1")


def _ratio(finding: Finding) -> str:
    """The times over the reference's."""
    if finding.ratio_before is None or finding.ratio_after is None:
        return "–"
    return f"{finding.ratio_before:.2f} → {finding.ratio_after:.2f} × {finding.reference}"
