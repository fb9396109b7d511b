"""Certificates in the complexity table: equality judges, what was measured to be otherwise does not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from harness.counting.certificates import Certificate, CertifiedFamily
from harness.counting.polynomial import Polynomial, Sizes
from harness.report import choosing
from harness.report.certified import Certified
from harness.report.choice import reaches
from harness.report.grid import Cell
from harness.report.page import page
from harness.report.records import arrange
from harness.report.tables import ComplexityRow, complexity_table
from harness.store import RunFolder, UnreadableRun, read_certificates
from harness.types import ImplementationCard, Measurement, Result
from tests.harness.report import synthetic

CARDS = (
    ImplementationCard("naive", "", True, {"time": "n^2*d", "memory": "batch*heads*n^2"}),
    ImplementationCard("flash", "", True, {"time": "n^2*d", "memory": "n^2"}),
)


def certificate(quantity: str, least: int | None = None, **terms: int) -> Certificate:
    """n2=4, n1=260 → 4n² + 260n."""
    powers: dict[Sizes, Fraction] = {(int(name.removeprefix("n")),): Fraction(c) for name, c in terms.items()}
    found = ((256,), (512,), (768,))
    return Certificate(
        "", quantity, "B", Polynomial(("n",), powers), "fp16", found, ((1024,), (4096,)), least
    )  # fmt: skip


def rows() -> list[Result]:
    """Measured peaks: exactly 8n², but for `flash`, whose workspace no counter sees; no own counts."""
    found = []
    for result in synthetic.rows(cards=CARDS, fail=False):
        n = int(str(result.case.problem["seq_len"]))
        value = 8 * n * n if result.case.implementation == "naive" else 260 * n + 999
        kept = {name: m for name, m in result.metrics.items() if name in ("cpu_time", "wall_time")}
        found.append(replace(result, metrics={**kept, "peak_memory": Measurement(value, "B")}))
    return found


def family(
    name: str, results: Iterable[Result], *certificates: Certificate, pinned: str = ""
) -> CertifiedFamily:
    problem = next(r.case for r in results if r.case.implementation == name)
    case = replace(problem, problem={**problem.problem, **({pinned: 1} if pinned else {})})
    own = tuple(replace(one, implementation=name) for one in certificates)
    return CertifiedFamily(case, (pinned,) if pinned else (), own, {"depth": "no polynomial holds"})


def table(*certified: CertifiedFamily) -> dict[tuple[str, str], ComplexityRow]:
    found = complexity_table(synthetic.description(CARDS), rows(), certified)
    return {(row.implementation, row.quantity): row for row in found.rows}


@pytest.mark.parametrize(
    ("name", "terms", "largest"),
    [
        ("naive", {"n2": 8}, 32768),  # 8·32768² B are the 8 GiB of the device
        ("naive", {"n2": 9}, None),  # it was measured otherwise: the fit speaks
        ("flash", {"n1": 260, "n0": 999}, ((8 << 30) - 999) // 260),  # as far as it goes, not 2⁶ sweeps
    ],
)
def test_the_memory_frontier_is_that_of_the_exact_count(
    name: str, terms: dict[str, int], largest: int | None
) -> None:
    certified = family(name, rows(), certificate("peak_bytes", **terms))
    records = arrange(synthetic.description(CARDS), rows(), [certified])
    reach = next(reach for reach in reaches(records) if reach.implementation == name)
    assert reach.exact == (largest is not None)
    assert reach.fits is not None
    if largest:
        assert (reach.fits.low, reach.fits.mid, reach.fits.high) == (largest,) * 3
        shown = next(row for row in choosing.reaches(records).rows if name in row)[-1]
        assert shown == Cell(f"{largest:,}", note="by exact count")
    assert not reach.open


@pytest.mark.parametrize(("limit", "largest"), [(4 * 4096**2 - 1, 3840), (4 * 256**2, 256), (1000, None)])
def test_the_largest_size_within_a_limit_comes_in_whole_steps(limit: int, largest: int | None) -> None:
    count = replace(certificate("peak_bytes", n2=4), step=256)
    found = Certified(count, {"n": "seq_len"}, ())
    assert found.largest_within(rows()[0], "seq_len", limit, 1 << 40) == largest


def test_a_law_is_confirmed_by_equality_and_predicted_exactly() -> None:
    row = table(family("naive", rows(), certificate("peak_bytes", n2=8)))["naive", "peak memory"]
    assert (row.word, row.bound, row.basis, row.polynomial) == (
        "confirmed",
        "confirmed",
        "certificate",
        "8n²",
    )
    assert row.reason == "by equality: 8n² at 2 sizes up to n = 4,096"
    largest = max(int(str(r.case.problem["seq_len"])) for r in rows())
    assert row.predictions[1] == (4 * largest, *[8.0 * (4 * largest) ** 2] * 3)


@pytest.mark.parametrize(("terms", "bound"), [({"n1": 4}, "confirmed"), ({"n3": 4}, "refuted")])
def test_a_law_is_refuted_by_equality(terms: dict[str, int], bound: str) -> None:
    """A wrong growth is refuted; as an upper bound only one that is too slow."""
    found = table(family("naive", rows(), certificate("bytes", **terms), certificate("flops", **terms)))
    assert found["naive", "bytes"].word == "not claimed"
    assert (found["naive", "FLOPs"].word, found["naive", "FLOPs"].bound) == ("refuted", bound)


def test_what_was_measured_otherwise_is_judged_as_measured() -> None:
    """The count stands beside it, with what it cannot see."""
    row = table(family("flash", rows(), certificate("peak_bytes", n1=260)))["flash", "peak memory"]
    assert row.basis == "peak_memory"
    assert row.polynomial == "260n"
    assert "workspace of SDPA" in row.evidence


def test_a_count_of_operations_never_judges_a_time() -> None:
    row = table(family("naive", rows(), certificate("flops", n2=4)))["naive", "time"]
    assert row.polynomial == "4n²"
    assert row.basis not in ("certificate", "")


def test_a_certificate_of_another_setting_is_not_used() -> None:
    other = family("naive", rows(), certificate("peak_bytes", n2=8))
    problem = {**other.case.problem, "dtype": "float64"}
    row = table(replace(other, case=replace(other.case, problem=problem)))["naive", "peak memory"]
    assert not row.polynomial


@pytest.mark.parametrize("axis", ["kv_len", "kv_heads"])
def test_a_certificate_of_keys_that_follow_does_not_speak_of_rows_where_they_do_not(axis: str) -> None:
    """Keys of a fixed length, or heads that share theirs, cost otherwise than those that were counted."""
    own = family("naive", rows(), certificate("bytes", n2=2), pinned="heads")
    own = replace(own, case=replace(own.case, problem={**own.case.problem, "kv_heads": 1}))
    apart = [replace(row, case=replace(row.case, problem={**row.case.problem, axis: 1})) for row in rows()]
    found = complexity_table(synthetic.description(CARDS), apart, [own]).rows
    assert not any(row.polynomial for row in found)
    row = table(own)["naive", "bytes"]
    assert row.polynomial == "2n²"


def test_counts_of_one_head_are_multiplied() -> None:
    heads = int(str(rows()[0].case.problem["heads"]))
    assert heads > 1
    row = table(family("naive", rows(), certificate("bytes", n2=2), pinned="heads"))["naive", "bytes"]
    largest = max(int(str(r.case.problem["seq_len"])) for r in rows())
    assert row.predictions[0][2] == 2 * (2 * largest) ** 2 * heads


def test_below_the_size_it_holds_from_a_certificate_contradicts_nothing() -> None:
    row = table(family("naive", rows(), certificate("peak_bytes", least=1 << 30, n2=9)))[
        "naive", "peak memory"
    ]
    assert (row.word, row.predictions) == ("confirmed", ())


def test_why_there_is_no_certificate_stands_in_the_table() -> None:
    without = replace(family("naive", rows()), missing={"peak_bytes": "two operators hold it"})
    assert table(without)["naive", "peak memory"].evidence == "two operators hold it"


def test_the_page_opens_the_evidence() -> None:
    html = page(
        synthetic.description(CARDS), rows(), [family("naive", rows(), certificate("peak_bytes", n2=8))]
    )
    assert "the one polynomial through the counts at (n) = 256; 512; 768" in html


def test_certificates_go_through_the_store(tmp_path: Path) -> None:
    folder, one = RunFolder(tmp_path / "run"), family("naive", rows(), certificate("bytes", least=512, n2=8))
    folder.append_certificates(one)
    assert read_certificates(folder.path) == (one,)
    path = folder.path / "certificates.jsonl"
    path.write_text(path.read_text() + json.dumps({"case": 1}) + "\n")
    with pytest.raises(UnreadableRun, match=r"certificates\.jsonl:2: damaged row"):
        read_certificates(folder.path)
