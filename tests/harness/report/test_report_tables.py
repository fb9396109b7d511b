"""The tables say what the records say: laws, ties, crossovers, errors beside their yardsticks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.report import accuracy, choice, outcomes, units
from harness.report.efficiency import table as efficiency
from harness.report.headline import answer
from harness.report.records import Records, arrange
from harness.report.sweeps import MAX_FITS, overhead_limit, sweeps, within_budget
from harness.report.tables import ComplexityTable, complexity_table, tabulate
from harness.types import Measurement, Result, Scalar

from . import synthetic


@pytest.fixture(scope="module")
def records() -> Records:
    return arrange(synthetic.description(), synthetic.rows())


@pytest.fixture(scope="module")
def table(records: Records) -> ComplexityTable:
    return tabulate(records)


def test_exact_laws_are_recovered(table: ComplexityTable) -> None:
    found = {(r.implementation, r.quantity): r for r in table.rows}
    naive = found["naive", "time"]
    assert naive.measured is not None
    assert naive.measured.low < 2 < naive.measured.high or abs(naive.measured.value - 2) < 0.02
    assert naive.word == "confirmed"
    assert naive.claim == "n^2"
    assert found["sdpa_flash", "time"].word == "confirmed"
    size, low, middle, high = naive.predictions[-1]
    assert size == 4 * 4096 or size == 4 * 2048
    assert low < middle < high


def test_a_wrong_law_is_refuted_and_a_missing_one_is_not_claimed() -> None:
    cards = tuple(
        replace(card, laws={"time": "n"}) if card.name == "naive" else card for card in synthetic.CARDS
    )
    rows = complexity_table(synthetic.description(cards), synthetic.rows(cards=cards)).rows
    found = {(r.implementation, r.quantity): r for r in rows}
    assert found["naive", "time"].word == "refuted"
    assert found[synthetic.HOSTILE, "time"].word == "not claimed"


def test_a_law_that_cannot_be_read_is_inconclusive_not_a_crash() -> None:
    cards = (replace(synthetic.CARDS[0], laws={"time": "n^^2"}),)
    rows = complexity_table(synthetic.description(cards), synthetic.rows(cards=cards)).rows
    assert rows[0].word == "inconclusive"
    assert "cannot be read" in rows[0].reason


def test_interpreted_times_are_not_judged_but_counts_are(table: ComplexityTable) -> None:
    found = {(r.implementation, r.quantity): r for r in table.rows}
    assert found["triton_flash", "time"].word == "not measured"
    assert found["triton_flash", "time"].reason == "not timed: interpreted"
    assert found["triton_flash", "time"].counted is not None


@pytest.mark.parametrize("sizes", [(64, 128), (64, 128, 256)])
def test_fewer_than_four_sizes_are_not_fitted(sizes: tuple[int, ...]) -> None:
    found = complexity_table(synthetic.description(), synthetic.rows({"seq_len": sizes}, fail=False))
    assert not found.rows
    assert "insufficient data" in found.left_out[0]


def test_a_series_with_too_few_usable_sizes_says_how_many() -> None:
    axes = {"seq_len": (128, 256, 512, 1024)}
    rows = complexity_table(synthetic.description(), synthetic.rows(axes)).rows
    flex = next(r for r in rows if r.implementation == "flex" and r.quantity == "time")
    assert flex.word == "insufficient data"
    assert "3 usable sizes" in flex.reason
    assert flex.measured is None


def test_too_many_fits_are_left_out_in_words() -> None:
    axes: dict[str, tuple[Scalar, ...]] = {
        "seq_len": synthetic.SIZES,
        "head_dim": (16, 32, 64, 128, 256, 512, 1024),
    }
    kept, left = within_budget(list(sweeps(arrange(synthetic.description(), synthetic.rows(axes)))))
    assert len(kept) * 4 <= MAX_FITS
    assert left


def test_the_swept_axis_has_the_most_values_and_followers_are_no_axes(records: Records) -> None:
    assert records.axes == ("seq_len",)
    both = arrange(
        synthetic.description(),
        synthetic.rows({"seq_len": (64, 128), "heads": (1, 2, 4), "causal": (False, True)}),
    )
    assert both.sweep == "heads"
    assert set(both.axes) == {"heads", "seq_len", "causal"}
    assert len(both.facets("heads")) == 4


def test_overhead_is_a_plateau_over_growing_work() -> None:
    rows = [r for r in synthetic.rows(fail=False) if r.case.implementation == "uniform"]
    assert overhead_limit(rows, "seq_len", "cpu_time") == 512
    naive = [r for r in synthetic.rows(fail=False) if r.case.implementation == "naive"]
    assert overhead_limit(naive, "seq_len", "cpu_time") is None


def _timed(value: float, low: float, high: float) -> dict[str, Measurement]:
    return {"cpu_time": Measurement(value, "s", low=low, high=high)}


def _pair(times: dict[str, list[tuple[float, float, float]]]) -> Records:
    cards = tuple(replace(synthetic.CARDS[0], name=name) for name in times)
    sizes = (64, 128, 256, 512)[: len(next(iter(times.values())))]
    rows: list[Result] = []
    for result in synthetic.rows({"seq_len": sizes}, cards, fail=False):
        position = sizes.index(int(str(result.case.problem["seq_len"])))
        rows.append(replace(result, metrics=_timed(*times[result.case.implementation][position])))
    return arrange(synthetic.description(cards), rows)


def test_overlapping_intervals_tie_and_separate_ones_do_not() -> None:
    found = choice.fastest(_pair({"a": [(1.0, 0.9, 1.2)], "b": [(1.1, 1.0, 1.3)], "c": [(1.5, 1.4, 1.6)]}))
    assert [t.name for t in found[0].tied] == ["a", "b"]
    assert [t.name for t in found[0].others] == ["c"]


def test_the_floor_is_no_candidate(records: Records) -> None:
    for found in choice.fastest(records):
        assert "uniform" not in [t.name for t in found.approximations]


def test_the_reach_ends_with_a_reason(records: Records) -> None:
    found = {reach.implementation: reach for reach in choice.reaches(records)}
    assert found["naive"].largest == 2048
    assert found["naive"].beyond is not None
    assert found["naive"].beyond.status == "oom"
    assert found["sdpa_flash"].beyond is None
    # naive: 32·n² B + 4096·n B of the 8 GiB that the device has
    assert found["naive"].fits is not None
    assert found["naive"].fits.mid == pytest.approx(16320, rel=0.001)
    assert found["naive"].fits.low <= found["naive"].fits.mid <= found["naive"].fits.high
    assert not found["naive"].open
    assert found["sdpa_flash"].open


def test_errors_stand_beside_naive_and_uniform(records: Records) -> None:
    rows = {row.implementation: row for row in accuracy.error_rows(records)}
    assert rows["sdpa_flash"].cells[1] is not None
    assert rows["sdpa_flash"].cells[1].ratio == pytest.approx(0.3)
    assert rows["linear_elu"].cells[0] is not None
    assert rows["linear_elu"].cells[0].floor == pytest.approx(0.7 / 0.9)
    assert rows["naive"].cells[-1] is None
    assert rows["naive"].why[-1] == "oom"


def test_gradients_have_rows_of_their_own() -> None:
    def graded(result: Result) -> Result:
        more = {"grad_q_error": Measurement(2e-3, "1"), "grad_q_error_ratio": Measurement(1.5, "1")}
        more["grad_q_max_abs_error"] = Measurement(1e-2, "1")
        return replace(result, metrics={**result.metrics, **more})

    rows = map(graded, synthetic.rows({"seq_len": (64, 128)}, fail=False))
    found = accuracy.error_rows(arrange(synthetic.description(), rows))
    assert {row.what for row in found} == {"output", "gradient of q"}
    gradient = next(row for row in found if row.what == "gradient of q")
    assert gradient.worst_ratio == 1.5


def test_flags_of_one_kind_are_one_warning() -> None:
    def contended(result: Result) -> Result:
        return replace(
            result, flags=(f"contended: wall time is {result.case.problem['seq_len']} × CPU time",)
        )

    records = arrange(synthetic.description(), map(contended, synthetic.rows(fail=False)))
    found = [w for w in outcomes.warnings(records, 0) if "contended" in w]
    assert len(found) == 1
    assert found[0].startswith("64 cases flagged as contended, such as: wall time is 32")


def test_the_answer_names_the_fastest_and_the_growth(records: Records, table: ComplexityTable) -> None:
    said = " ".join(answer(records, table, choice.fastest(records), accuracy.error_rows(records)))
    assert "At seq_len 4096, sdpa_flash is the fastest exact implementation" in said
    assert "Declared growth of time in seq_len: confirmed for naive (n²)" in said


def test_reasons_alike_but_for_numbers_are_told_once() -> None:
    told = outcomes.told_once(["predicted 3.4 s", "predicted 2e+03 s", "predicted 3.4 s", "no row"])
    assert told == "predicted 3.4 s (and 1 alike but for the numbers); no row"


def test_an_approximation_no_better_than_the_floor_is_named(table: ComplexityTable) -> None:
    def worse(result: Result) -> Result:
        if result.case.implementation != "linear_elu":
            return result
        return replace(result, metrics={**result.metrics, "error": Measurement(1.2, "1")})

    records = arrange(synthetic.description(), map(worse, synthetic.rows(fail=False)))
    said = answer(records, table, choice.fastest(records), accuracy.error_rows(records))
    assert said[-1] == "No nearer to the truth than the mean of V somewhere: linear_elu."


def test_places_are_told_by_setting_and_in_part() -> None:
    axes: dict[str, tuple[Scalar, ...]] = {
        "seq_len": (64, 128),
        "dtype": ("float16", "float32"),
        "head_dim": (32, 64, 128),
    }
    records = arrange(synthetic.description(), synthetic.rows(axes, fail=False))
    assert records.axes[0] == "head_dim"
    every = records.results
    assert outcomes.where(records, every) == "everywhere"
    some = [r for r in every if r.case.problem["dtype"] == "float16"]
    assert outcomes.where(records, some[:1]) == "head_dim 32 at seq_len 64, float16"
    assert outcomes.where(records, some) == (
        "every head_dim at seq_len 64, float16; every head_dim at seq_len 128, float16"
    )


def test_rates_are_of_exact_implementations_only(records: Records) -> None:
    names = [row[0] for row in efficiency(records).rows]
    assert names == ["naive", "sdpa_math", "sdpa_flash", "flex", synthetic.HOSTILE]


def test_a_later_row_of_a_case_counts() -> None:
    first = next(iter(synthetic.rows()))
    again = replace(first, metrics=_timed(9.0, 8.0, 10.0))
    records = arrange(synthetic.description(), [first, again])
    assert [r.metrics["cpu_time"].value for r in records.results] == [9.0]


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [(1.2345e-3, "s", "1.23 ms"), (2.5e9, "B", "2.50 GB"), (3.4e-7, "1", "3.40e-7"), (0.7, "1", "0.700")],
)
def test_units_are_chosen_at_the_edge(value: float, unit: str, expected: str) -> None:
    assert units.shown(value, unit) == expected


def test_a_column_has_one_unit() -> None:
    scale = units.scale_for([1e-5, 2e-3, 0.4], "s")
    assert scale.head("time") == "time (ms)"
    assert [scale.show(v) for v in (1e-5, 2e-3, 0.4)] == ["0.01000", "2.000", "400.0"]


def test_the_figure_of_a_row_over_the_floor_needs_no_row_of_the_floor() -> None:
    def alone(result: Result) -> Result:
        return replace(result, metrics={**result.metrics, "error_over_floor": Measurement(0.25, "1")})

    kept = [row for row in synthetic.rows(fail=False) if row.case.implementation == "linear_elu"]
    (row,) = accuracy.error_rows(arrange(synthetic.description(), map(alone, kept)))
    assert {cell.floor for cell in row.cells if cell} == {0.25}
