"""Are the figures of one run counted once, and do open, fitted and related rows count rightly?"""

import math
from dataclasses import replace

import pytest

from scalewright import reproductions
from scalewright.cli import main
from scalewright.reproductions import setting
from scalewright.reproductions.comparing import RowComparer, compared
from scalewright.reproductions.machine import Machines
from scalewright.reproductions.pricing import Pricing
from scalewright.reproductions.reading import Row, shipped_rows
from scalewright.reproductions.runs import kind_of, macro, quantile, sign_test, spread
from test_reproductions import FIXED, HEADER, written

RATE = {"metric": "model_tflops_per_gpu", "unit": "TFLOP/s", "value": "140", "table": "Table 6"}
MORE = [*HEADER, "use", "label", "against"]


def run(path, *changes):
    file = written(path, [FIXED | change for change in changes], MORE)
    return reproductions.run(rows_path=file)


def test_figures_of_one_run_are_one_run(tmp_path):
    result = run(tmp_path, {}, RATE, RATE | {"metric": "MFU", "unit": "%", "value": "45"})
    assert len({row["run"] for row in result["rows"]}) == 1
    assert result["summary"]["runs"]["runs"] == 1


def test_another_batch_is_another_run(tmp_path):
    assert run(tmp_path, {}, RATE | {"global_batch": "8"})["summary"]["runs"]["runs"] == 2


def test_a_figure_printed_twice_speaks_of_two_runs(tmp_path):
    assert run(tmp_path, {}, {"value": "2.9"})["summary"]["runs"]["runs"] == 2


def test_times_and_rates_that_say_the_same_err_to_the_same_side(tmp_path):
    rows = run(tmp_path, {"value": "1.0"}, RATE)["rows"]
    step, rate = rows[0]["predicted"], rows[1]["predicted"]
    told = run(tmp_path, {"value": str(step / 2)}, RATE | {"value": str(rate * 2)})["rows"]
    assert told[0]["time_ratio"] == pytest.approx(2.0)
    assert told[1]["time_ratio"] == pytest.approx(2.0)


def test_a_row_to_which_a_constant_was_fitted_counts_nowhere(tmp_path):
    result = run(tmp_path, {"use": "calibrate", "value": "100"}, {"value": "1.4"})
    assert result["rows"][0]["error"] < -0.9
    assert result["summary"]["runs"]["runs"] == 1
    assert result["summary"]["worst_abs_error"] == abs(result["rows"][1]["error"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"use": "tune"}, "use: got 'tune'; allowed: validate, calibrate"),
        ({"source_kind": "heard"}, "source_kind: got 'heard'; allowed: read, recalled, derived"),
        ({"metric": "speedup", "unit": "x", "against": "slow"}, "against: got 'slow'"),
        ({"devices": "8", "tp": "4", "dp": "4", "pp": "1"}, "devices: got 8; allowed: 16"),
    ],
)
def test_a_wrong_row_says_why_and_the_others_run(tmp_path, change, reason):
    rows = run(tmp_path, change, {})["rows"]
    assert reason in rows[0]["reason"]
    assert rows[1]["status"] == "priced"


def test_wrong_rows_of_ones_own_file_are_told_by_line(tmp_path, capsys):
    file = written(tmp_path, [FIXED, FIXED | {"unit": "furlong"}, FIXED | {"model": "x"}], MORE)
    assert main(["reproduce", "--rows", str(file)]) == 0
    told = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    reasons = {words[0]: words[1] for words in told if len(words) > 1}
    assert "furlong" in reasons["3"]
    assert "priced" in reasons["2"]


def test_a_speedup_is_the_ratio_of_two_rows(tmp_path):
    slow = {"label": "full", "recompute": "full"}
    quick = {"recompute": "selective", "metric": "speedup", "value": "1.3", "unit": "x"}
    rows = run(tmp_path, slow, {"recompute": "selective"}, quick | {"against": "full"})["rows"]
    times = [row["step_time_s"] for row in rows[:2]]
    assert rows[2]["predicted"] == pytest.approx(times[0] / times[1])
    assert rows[2]["predicted"] > 1.0


def test_a_gain_whose_other_run_the_paper_describes_is_the_ratio_of_both(tmp_path):
    paper = {"paper": "Korthikanti et al. 2022"}
    slow = paper | {"recompute": "full", "seq_parallel": "no"}
    quick = paper | {"recompute": "selective", "seq_parallel": "yes"}
    gain = {"recompute": "selective vs full", "metric": "throughput_increase", "unit": "%"}
    rows = run(tmp_path, slow, quick, quick | gain | {"value": "30"})["rows"]
    times = [row["step_time_s"] for row in rows[:2]]
    assert rows[2]["predicted"] == pytest.approx((times[0] / times[1] - 1.0) * 100.0)
    assert rows[2]["error"] == pytest.approx(times[0] / times[1] / 1.3 - 1.0)
    assert rows[2]["kind"] == "speedup"


def test_a_share_of_a_described_run_is_of_its_own_figure(tmp_path):
    paper = {"paper": "Korthikanti et al. 2022", "value": "50"}
    share = {"metric": "activation_memory_vs_tp_baseline", "unit": "% of the baseline"}
    bare = {"recompute": "none", "seq_parallel": "no"}
    kept = {"metric": "activation_memory_per_gpu", "unit": "GiB"}
    rows = run(
        tmp_path,
        paper | share | bare,
        paper | share | {"recompute": "selective", "seq_parallel": "yes"},
        paper | kept | bare,
        paper | kept | {"recompute": "selective", "seq_parallel": "yes"},
    )["rows"]
    figures = [row["predicted"] for row in rows]
    assert figures[0] == pytest.approx(100.0)
    assert figures[1] == pytest.approx(figures[3] / figures[2] * 100.0)


def test_the_sign_test_is_the_binomial_one():
    assert sign_test(0, 5) == pytest.approx(2 / 32)
    assert sign_test(5, 5) == sign_test(0, 5)
    assert sign_test(2, 4) == 1.0
    assert sign_test(1, 6) == pytest.approx(2 * 7 / 64)
    assert sign_test(0, 0) is None
    assert sign_test(464, 928) == 1.0


def test_quantiles_lie_between_neighbours():
    assert quantile([1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile([1.0, 2.0, 4.0], 0.75) == 3.0
    assert quantile([7.0], 0.9) == 7.0


def test_a_paper_with_many_runs_counts_once():
    many = [{"paper": "a", "size": 0.1, "time_error": -0.1, "device": "x"}] * 99
    few = [{"paper": "b", "size": 0.3, "time_error": 0.3, "device": "y"}]
    assert macro(many + few)["median_abs_error"] == pytest.approx(0.2)
    total = spread(many + few)
    assert (total["too_quick"], total["too_slow"], total["devices"]) == (99, 1, ["x", "y"])
    assert total["sign_test_p"] == pytest.approx(2 * 101 / 2**100)


def test_kinds_of_metrics():
    kinds = {kind_of(m) for m in ("iteration_time", "iteration_latency", "days_for_1t_tokens")}
    assert kinds == {"time"}
    assert kind_of("layer_forward_time") == "layer"
    assert kind_of("peak_allocated_per_gpu") == "memory"
    assert kind_of("tokens_per_s_per_gpu") == "rate"


def test_single_node_measurements_ship_and_are_priced():
    rows = [row for row in shipped_rows() if row.file == "vtrain-single.csv"]
    assert len(rows) == 928
    some = reproductions.run("*vtrain-single")["rows"][::97]
    assert all(row["status"] == "priced" for row in some)
    assert all(math.isfinite(row["error"]) for row in some)
    assert {row["plan"]["recompute"] for row in some} == {"full"}


def test_predicting_a_further_token_makes_a_step_longer_by_a_layer_and_a_head(tmp_path):
    fields = [*MORE, "mtp_layers"]
    steps = []
    for modules in ("", "1", "2"):
        file = written(tmp_path, [FIXED | {"mtp_layers": modules}], fields)
        rows = reproductions.run(rows_path=file)["rows"]
        steps.append(rows[0]["predicted"])
    once, twice = steps[1] - steps[0], steps[2] - steps[1]
    assert once > 0.0
    assert twice == pytest.approx(once, rel=0.05)


def test_rows_that_differ_in_what_was_printed_alone_are_understood_and_priced_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = {"hardware": "H100", "devices": "8", "model": "llama2-7b", "sequence": "4096"}
    cells |= {"global_batch": "64", "metric": "MFU", "unit": "%"}
    printed = [{"value": value, "label": value, "seen": "read"} for value in ("40", "41", "0.42")]
    rows = [Row("own.csv", line, {**cells, **told}) for line, told in enumerate(printed, 2)]
    apart = [compared(row, RowComparer([row]), detail=True) for row in rows]
    read: list[Row] = []
    understood = setting._understood
    monkeypatch.setattr(
        setting, "_understood", lambda row, of: read.append(row) or understood(row, of)
    )
    book = RowComparer(rows)
    joined = [compared(row, book, detail=True) for row in rows]
    # only the number of the run tells that others came before
    assert [{**row, "run": 1} for row in joined] == apart
    assert read == rows[:1]
    compared(Row("own.csv", 5, {**cells, "value": "40", "devices": "16"}), book)
    assert len(read) == 2


def test_a_price_is_that_of_the_device_and_the_conventions_of_its_row() -> None:
    cells = {"hardware": "H100", "devices": "8", "model": "gpt2", "sequence": "1024"}
    cells |= {"global_batch": "64", "metric": "tokens_per_s", "value": "1"}
    asked = setting.setting_of(Row("own.csv", 2, cells), Machines())
    slow = replace(asked, device={**asked.device, "launch_overhead": "1 ms"})
    known = replace(asked, conventions=replace(asked.conventions, known=True))
    pricing = Pricing()
    found = [pricing.price(each) for each in (asked, slow, known)]
    alone = [Pricing().price(each) for each in (asked, slow, known)]
    assert [each.estimate for each in found] == [each.estimate for each in alone]
    assert found[0].estimate != found[1].estimate
