"""Quarantine: cases that may fail for a while, with a reason, an owner and an end."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from harness.gate.findings import Finding, Verdict
from harness.types import BenchError

FILE = "quarantine.yaml"
EXCUSABLE = frozenset({Verdict.SLOWER, Verdict.AMBIGUOUS, Verdict.NEWLY_FAILED, Verdict.MISSING})


class Entry(BaseModel):
    """One entry: `case` is a pattern of case keys or of implementation names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str
    reason: str
    owner: str
    expires: datetime.date

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of that case."""
        name = finding.case.split("/")[1] if finding.case.count("/") >= 2 else finding.case
        return fnmatchcase(finding.case, self.case) or fnmatchcase(name, self.case)


_ENTRIES = TypeAdapter(list[Entry])


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The entries of a baseline, on a day."""

    entries: tuple[Entry, ...] = ()
    today: datetime.date = datetime.date.min

    def applied(self, finding: Finding) -> Finding:
        """The finding, excused where an entry that has not expired covers it. Accuracy never is."""
        if finding.verdict not in EXCUSABLE or finding.metric == "accuracy":
            return finding
        for entry in self.entries:
            if entry.expires >= self.today and entry.covers(finding):
                words = f"{finding.words}; quarantined until {entry.expires} by {entry.owner}: {entry.reason}"
                return replace(finding, verdict=Verdict.QUARANTINED, words=words)
        return finding

    def expired(self) -> tuple[str, ...]:
        """The entries that are over, in words."""
        return tuple(
            f"quarantine of {entry.case} ended on {entry.expires} ({entry.owner}: {entry.reason}); "
            "mend the case, or renew or remove the entry"
            for entry in self.entries
            if entry.expires < self.today
        )


def read_quarantine(text: str | None, path: Path, today: datetime.date) -> Quarantine:
    """The entries of a file's text; None is no file. Raises BenchError naming the file and the entry."""
    if text is None:
        return Quarantine((), today)
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        entries = _ENTRIES.validate_python(YAML(typ="safe").load(text) or [])
    except YAMLError as error:
        raise BenchError(f"{path}: not YAML: {str(error).splitlines()[0]}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise BenchError(
            f"{path}: entry {place}: {first['msg']}; each has case, reason, owner and expires"
        ) from None
    return Quarantine(tuple(entries), today)
