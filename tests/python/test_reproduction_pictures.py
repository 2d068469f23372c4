"""Do the parity plot and the page show every run and row, and need nothing beside themselves?"""

import json
import re
import subprocess

import pytest

from scalewright import reproductions
from scalewright.cli import main
from scalewright.errors import InvalidError
from scalewright.reproductions.page import write_page
from scalewright.reproductions.parity import draw_parity, points_of, short
from test_reproductions import FIXED, written

RATE = {"metric": "MFU", "unit": "%", "value": "45"}


def reproduced(path, **kwargs):
    odd = {"model": "</script><b>22B<!--<script>", "layers": "", "metric": "happiness"}
    rows = [FIXED, FIXED | RATE, FIXED | {"micro_batch": "", "value": "9"}, FIXED | odd]
    return reproductions.run(rows_path=written(path, rows), **kwargs)


def test_a_point_stands_for_a_run_at_its_measured_and_predicted_step(tmp_path):
    result = reproduced(tmp_path)
    points = points_of(result["rows"])
    assert [point["searched"] for point in points] == [False, True]
    assert points[0]["measured_s"] == pytest.approx(1.42)
    assert points[1]["measured_s"] == pytest.approx(9.0)
    assert points[0]["predicted_s"] == result["rows"][0]["step_time_s"]


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_drawn(tmp_path, ending):
    file = tmp_path / f"parity.{ending}"
    draw_parity(reproduced(tmp_path)["rows"], file)
    assert file.stat().st_size > 4000
    if ending == "svg":
        text = file.read_text()
        for said in ("Korthikanti et al. 2022 (2)", "10% off", "25% off", "hollow"):
            assert said in text


def test_other_files_and_nothing_to_draw_are_refused(tmp_path):
    with pytest.raises(InvalidError, match=r"\.png, \.svg, \.pdf"):
        draw_parity([], tmp_path / "parity.txt")
    with pytest.raises(InvalidError, match="no priced row"):
        draw_parity([], tmp_path / "parity.png")
    with pytest.raises(InvalidError, match=r"\.html"):
        write_page({}, tmp_path / "page.txt")


def test_releases_of_one_page_are_one_paper():
    assert short("NVIDIA Page, 26.02 Container") == short("NVIDIA Page, 25.11 Container")
    assert short("A et al. 2020 (name, arXiv 1)") == "A et al. 2020"
    assert short("B et al. 2023 (vTrain, arXiv 2), vtrain-multi") == "B et al. 2023, vtrain-multi"


def test_the_page_holds_every_row_with_assumptions_and_terms(tmp_path):
    result = reproduced(tmp_path, detail=True)
    file = tmp_path / "page.html"
    write_page(result, file)
    text = file.read_text()
    assert not re.search(r"(src|href)\s*=|https?://|@import", text.replace("http-equiv", ""))
    found = re.search(r'type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found
    told = json.loads(found[1])
    assert len(told["rows"]) == len(result["rows"])
    assert told["rows"][3]["model"] == "</script><b>22B<!--<script>"
    assert "happiness" in told["rows"][3]["reason"] or "model" in told["rows"][3]["reason"]
    first = told["rows"][0]
    assert sum(time for _, time in first["terms"]) == pytest.approx(
        result["rows"][0]["step_time_s"], rel=1e-3
    )
    assert "tensor 8" in first["plan"]
    assert "global batch" not in first["training"]
    assert "appendix A" in " ".join(told["sources"][first["told"]])


def test_the_verb_writes_both_and_refuses_them_for_collectives(tmp_path, capsys):
    rows = written(tmp_path, [FIXED])
    picture, page = tmp_path / "p.svg", tmp_path / "p.html"
    asked = ["--rows", str(rows), "--picture", str(picture), "--page", str(page), "--json"]
    assert main(["reproduce", *asked]) == 0
    assert picture.exists()
    assert page.exists()
    assert json.loads(capsys.readouterr().out)["summary"]["runs"]["runs"] == 1
    assert main(["reproduce", "collectives", "--page", str(page)]) != 0
    assert "training runs" in capsys.readouterr().err


def test_the_script_of_the_page_is_legal(tmp_path):
    from shutil import which

    node = which("node")
    if node is None:
        pytest.skip("no interpreter of scripts here")
    file = tmp_path / "page.html"
    write_page(reproduced(tmp_path, detail=True), file)
    script = tmp_path / "page.js"
    script.write_text(re.findall(r"<script>(.*?)</script>", file.read_text(), re.DOTALL)[-1])
    subprocess.run([node, "--check", str(script)], check=True)
