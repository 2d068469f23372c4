"""Are rows of sources without conventions kept apart, and do bands rest on them?"""

from __future__ import annotations

import dataclasses
import re
import statistics

import scalewright as sw
from scalewright.planning import estimate_job
from scalewright.planning.error_band import UNSEEN_FILE, Runs, band_of, recorded, unseen
from scalewright.reproductions.conventions import conventions_of
from scalewright.reproductions.evidence import recorded_results
from scalewright.reproductions.reading import UNSEEN, read_rows, shipped_rows, unseen_path
from scalewright.reproductions.unseen import unseen_section

ROWS = read_rows(unseen_path())


def test_every_row_has_its_residual_and_nothing_of_the_book() -> None:
    results = recorded_results(UNSEEN_FILE)
    assert {row["line"] for row in results} == {row.line for row in ROWS}
    assert all(row.file != UNSEEN for row in shipped_rows())
    assert not [row for row in ROWS if row.text("use")]


def test_nobody_wrote_conventions_for_its_sources() -> None:
    """Some speak of programs whose own pages have conventions, which hold by the name."""
    known = {row.text("paper") for row in ROWS if conventions_of(row).known}
    assert all(
        re.search(r"torchtitan|llm-foundry|Megatron-Bridge|MaxText", paper) for paper in known
    )
    assert len(known) < len({row.text("paper") for row in ROWS}) / 10


def test_a_part_of_the_rows_cannot_be_priced_and_says_why() -> None:
    results = recorded_results(UNSEEN_FILE)
    skipped = [row for row in results if row["status"] == "skipped"]
    assert 0 < len(skipped) < len(results) / 4
    assert all(row["reason"] for row in skipped)
    of_known = {row["paper"] for row in results if row["known"]}
    assert of_known <= {row.text("paper") for row in ROWS if conventions_of(row).known}


def test_the_section_counts_the_runs_that_bands_of_other_sources_hold() -> None:
    told = unseen_section(recorded_results(UNSEEN_FILE))
    assert f"{len(unseen())} runs of " in told
    sources = {run.paper for run in unseen()}
    assert all(f"| {paper} |" in told for paper in sources)


def test_bands_of_answers_without_a_program_rest_on_runs_without_one() -> None:
    every = Runs(recorded()[0])
    asked = {run.traits for run in unseen() if run.traits.device == "a100-sxm-80gb"}
    widths: list[float] = []
    for named in (True, False):
        bands = [band_of(dataclasses.replace(traits, named=named), every) for traits in asked]
        shares = [statistics.fmean(run.traits.named for run in band.runs) for band in bands]
        assert (statistics.fmean(shares) > 0.5) == named
        widths.append(statistics.fmean(band.high - band.low for band in bands))
    assert widths[1] > widths[0]


def test_naming_the_program_narrows_the_band() -> None:
    model, system = sw.model("llama2-7b"), sw.system("dgx-a100-80gb", devices=8)
    training = sw.Training(global_batch=16, sequence=2048)
    job = sw.Job(model, system, training)
    plain = estimate_job(job, "tensor=8").to_dict()["error_band"]
    told = estimate_job(job.with_software("nemo-2024"), "tensor=8").to_dict()["error_band"]
    assert plain["high_factor"] / plain["low_factor"] > told["high_factor"] / told["low_factor"]
