"""Is the evidence current, do recorded errors only shrink, and do bands hold what they say?"""

import csv
import dataclasses
import json
import math
import random
from pathlib import Path

import pytest

import scalewright as sw
from scalewright.cli import main
from scalewright.errors import ScalewrightError
from scalewright.planning.error_band import Residual, Runs, Traits, band_of, recorded
from scalewright.reproductions.ablation import SWITCHES, ablation, without
from scalewright.reproductions.comparing import RowComparer, compared
from scalewright.reproductions.evidence import (
    ablation_of,
    evidence_page,
    readme_block,
    recorded_results,
    write_page_of,
)
from scalewright.reproductions.findings import FAR, UNEXPLAINED, findings
from scalewright.reproductions.ratchet import as_text, errors_of, grown, tightened
from scalewright.reproductions.reading import read_rows, shipped_rows
from scalewright.reproductions.residuals import coverage, widening

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evidence.md"
RATCHET = ROOT / "tests" / "python" / "ratchet.csv"
AGAIN = "; `make evidence` makes it again"


@pytest.fixture(scope="module")
def results():
    return recorded_results()


def test_every_shipped_row_has_its_residual(results):
    shipped = {(row.file, row.line) for row in shipped_rows()}
    assert {(row["file"], row["line"]) for row in results} == shipped, "residuals.csv" + AGAIN


def test_residuals_are_those_of_the_engine(results):
    """Rows spread over all files and papers are priced again."""
    rows = shipped_rows()
    held = {(row["file"], row["line"]): row for row in results}
    priced = [row for row in rows if held[row.file, row.line]["status"] == "priced"]
    searched = [row for row in rows if held[row.file, row.line]["status"] == "searched"]
    book = RowComparer(rows)
    for row in [*priced[:: max(len(priced) // 80, 1)], *searched[:: max(len(searched) // 8, 1)]]:
        now, before = compared(row, book), held[row.file, row.line]
        assert now["predicted"] == pytest.approx(before["predicted"], rel=1e-4), (
            f"{row.file} line {row.line}{AGAIN}"
        )


def test_the_page_and_the_readme_are_current(results):
    told = ablation_of(PAGE)
    assert PAGE.read_text() == evidence_page(results, told), "docs/evidence.md" + AGAIN
    assert readme_block(results) in (ROOT / "README.md").read_text(), "README.md" + AGAIN
    assert "(nothing)" in told


def test_no_papers_error_has_grown_beyond_its_slack(results):
    with RATCHET.open(newline="") as file:
        records = list(csv.DictReader(file))
    errors = errors_of(results)
    assert grown(errors, records) == []
    assert {record["paper"] for record in records} == set(errors), "ratchet.csv lacks a paper"


def test_the_ratchet_tells_what_grew_shrank_or_went_away():
    before = {"a": (20, 0.10), "b": (3, 0.20), "c": (5, 0.1)}
    records = list(csv.DictReader(as_text(before).splitlines()))
    assert grown(before, records) == []
    assert grown({**before, "a": (20, 0.05), "b": (4, 0.219)}, records) == []
    assert "was 10.0%, is 11.2%" in grown({**before, "a": (20, 0.112)}, records)[0]
    assert "had 20 priced rows, has 19" in grown({**before, "a": (19, 0.1)}, records)[0]
    assert "has none" in grown({"a": (20, 0.1), "b": (3, 0.2)}, records)[0]


def test_the_ratchet_goes_one_way():
    records = list(csv.DictReader(as_text({"a": (20, 0.10), "b": (9, 0.2)}).splitlines()))
    now = {"a": (21, 0.08), "b": (9, 0.21), "new": (1, 0.5)}
    assert tightened(now, records) == {"a": (21, 0.08), "b": (9, 0.2), "new": (1, 0.5)}


def drawn(paper: str, shift: float, seed: int, **changes) -> list[Residual]:
    draw = random.Random(seed)
    traits = Traits("d", "v", 2020, "bf16", 5.0, 33.0, searched=False, named=True)
    return [
        Residual(
            paper,
            dataclasses.replace(traits, devices=draw.uniform(3, 10), **changes),
            draw.gauss(shift, 0.1),
        )
        for _ in range(60)
    ]


def test_a_band_holds_its_share_of_runs_of_papers_that_it_never_saw():
    papers = [drawn(f"p{i}", random.Random(i).gauss(0.1, 0.05), i) for i in range(12)]
    held = coverage([run for paper in papers for run in paper])
    assert 0.72 <= held["of_runs"] <= 0.88
    assert held["papers"] == 12
    assert 0.3 <= held["longer_than_middle"] <= 0.7
    largest = held["largest"]
    shares = largest["runs"] * largest["of_runs"]
    shares += (held["runs"] - largest["runs"]) * largest["of_other_runs"]
    assert shares / held["runs"] == pytest.approx(held["of_runs"])


def test_bands_are_widened_where_papers_disagree():
    alike = [run for i in range(8) for run in drawn(f"p{i}", 0.1, i)]
    apart = [run for i in range(8) for run in drawn(f"p{i}", 0.4 * (i % 2), i)]
    assert max(widening(alike).named, widening(alike).unnamed) < 0.05
    assert coverage(apart)["median_width"] > coverage(alike)["median_width"]


def test_nearer_runs_make_the_band_and_no_paper_makes_it_alone():
    near = [run for i in range(3) for run in drawn(f"near{i}", 0.0, i)]
    far = drawn("far", 2.0, 9, device="x", vendor="w", year=2010)
    band = band_of(near[0].traits, Runs(near + far))
    assert {run.paper for run in band.runs} == {"near0", "near1", "near2"}
    assert band.high < 0.5
    lone = band_of(near[0].traits, Runs(drawn("one", 0.0, 1) + far))
    assert sum(run.paper == "one" for run in lone.runs) == 20


def test_every_answer_carries_its_band():
    model, system = sw.model("llama2-7b"), sw.system("dgx-h100", devices=8)
    training = sw.Training(global_batch=16, sequence=2048)
    priced = sw.estimate(model, system, "tensor=8", training)
    found = sw.search(model, system, training, top=1, fix={"tensor": 8, "pipeline": 1})
    for band in (priced.to_dict()["error_band"], found.to_dict()["error_band"]):
        assert 0.2 < band["low_factor"] < band["middle_factor"] < band["high_factor"] < 5.0
        assert band["share"] == 0.8
        assert band["runs"] == 60
        assert len(band["papers"]) >= 3


def test_the_band_is_printed(capsys):
    asked = "--model llama2-7b --system dgx-h100 --devices 8 --global-batch 16 --sequence 2048"
    assert main(["estimate", *asked.split(), "--tensor", "8"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "measured runs like this one lie between x" in text


def test_recorded_bands_hold_about_their_share_of_held_back_papers():
    residuals, widened = recorded()
    found = widening(residuals)
    for own, told in ((found.named, widened.named), (found.unnamed, widened.unnamed)):
        assert told == pytest.approx(own, abs=1e-3), "residuals.csv" + AGAIN
    held = coverage(residuals)
    assert held["papers"] >= 15
    assert 0.72 <= (held["of_runs"] + held["of_papers"]) / 2 <= 0.88


def test_each_term_left_out_changes_the_job_or_is_not_there():
    rows = [row for row in shipped_rows() if "Table 5" in row.text("table")]
    row = next(row for row in rows if "Korthikanti" in row.text("paper"))
    setting, priced = RowComparer(rows).price(row)
    changed = [s.name for s in SWITCHES if without(setting, priced.batch, s) is not None]
    assert {"start of kernels", "edges of tiles", "dropout", "sustained share of links"} <= {
        *changed
    }
    assert without(setting, priced.batch, SWITCHES[0]) is not None


def test_leaving_a_term_out_leaves_the_setting_as_it_was():
    rows = [row for row in shipped_rows() if row.file != "training.csv" or row.line % 90 == 2]
    for row in rows[::40]:
        try:
            setting, priced = RowComparer(rows).price(row)
        except ScalewrightError:
            continue
        parts = (setting.training, setting.system, setting.device)
        before = json.dumps(parts)
        for switch in SWITCHES:
            without(setting, priced.batch, switch)
            assert json.dumps(parts) == before, switch.name


def test_without_what_takes_time_predictions_are_quicker():
    found = ablation("Korthikanti*Table 5")
    assert found["runs"] > 0
    runs = {term["term"]: term["runs"] for term in found["terms"]}
    assert runs["line: attention"] == found["runs"]
    assert runs["line: expert parallel traffic"] == 0
    lacking = next(t for t in found["terms"] if t["term"] == "line: attention")
    assert lacking["mean_abs_error"] > found["base"]["mean_abs_error"]
    absent = next(t for t in found["terms"] if t["term"] == "line: expert parallel traffic")
    assert absent["mean_abs_error"] == found["base"]["mean_abs_error"]


def test_the_ablation_is_shown_and_told(capsys):
    assert main(["reproduce", "Korthikanti*Table 5", "--ablation"]) == 0
    assert "start of kernels" in capsys.readouterr().out
    assert main(["reproduce", "Korthikanti*Table 5", "--ablation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["base"]["mean_abs_error"] < 0.1


def test_findings_are_beside_rows_that_are_far_off_alone(results):
    for row in results:
        far = row["error"] is not None and abs(row["error"]) > FAR
        assert (row["finding"] is not None) == far


def test_every_finding_speaks_of_some_row(results):
    """A finding whose rows have come near is taken away."""
    said = {row["finding"] for row in results}
    assert [f.finding for f in findings() if f.finding not in said] == []
    assert all(f.side in {"", "high", "low"} for f in findings())
    assert all(f.finding != UNEXPLAINED for f in findings())


def test_the_page_is_written_from_rows_of_ones_own(tmp_path):
    from scalewright import reproductions
    from test_reproductions import FIXED, written

    rows = reproductions.run(rows_path=written(tmp_path, [FIXED]))["rows"]
    page = tmp_path / "mine.md"
    write_page_of(rows, page)
    assert "Korthikanti et al. 2022" in page.read_text()
    write_page_of([{**row, "paper": "A | <script>B</script>"} for row in rows], page)
    assert "A / &lt;script>B&lt;/script>" in page.read_text()
    assert "<script" not in page.read_text()
    with pytest.raises(ScalewrightError, match="no priced row"):
        write_page_of([], page)


def test_residual_ratios_are_finite(results):
    priced = [row for row in results if row["error"] is not None]
    assert len(priced) > 1500
    assert all(math.isfinite(row["time_ratio"]) and row["time_ratio"] > 0 for row in priced)
    assert read_rows(ROOT / "python/scalewright/catalog/published/vtrain-multi.csv")
