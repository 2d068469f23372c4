"""Does a damaged file of results say what is wrong, where, and what is allowed?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from scalewright import reproductions
from scalewright.cli import main
from scalewright.errors import ScalewrightError
from scalewright.reproductions.ablation import ablation
from test_reproductions import FIXED, HEADER, only, written

if TYPE_CHECKING:
    from pathlib import Path

LINE = ",".join(FIXED.get(column, "") for column in HEADER)
HEAD = ",".join(HEADER)


def of(path: Path, text: str | bytes) -> list[dict]:
    file = path / "rows.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize(
    "line", [LINE + ",more", LINE.rpartition(",")[0], LINE.replace("8", "1,8")]
)
def test_a_line_whose_cells_do_not_match_the_header_is_not_read_as_shifted(
    tmp_path: Path, line: str
) -> None:
    rows = of(tmp_path, f"{HEAD}\n{line}\n{LINE}\n{LINE},,\n")
    assert [row["status"] for row in rows] == ["skipped", "priced", "priced"]
    assert rows[0]["reason"].startswith("cells: got ")
    assert f"allowed: {len(HEADER)}" in rows[0]["reason"]


def test_two_columns_of_one_meaning_may_not_contradict(tmp_path: Path) -> None:
    rows = of(tmp_path, f"{HEAD},TP,tensor\n{LINE},4,\n{LINE},8,\n{LINE},,8\n")
    assert [row["status"] for row in rows] == ["skipped", "priced", "priced"]
    assert "got '8' and '4'" in rows[0]["reason"]
    assert "'tp' and 'TP'" in rows[0]["reason"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}\n", "no row below the header"),
        (HEAD.replace(",", "|") + "\n" + LINE.replace(",", "|"), "tabs between"),
        (f"{HEAD}\n{LINE}\nM\xfcller{LINE}\n".encode("latin-1"), "line 3: got the byte 0xfc"),
        (f'{HEAD}\n{LINE}\n"open{LINE}\n{LINE}\n', "line 3: .*a quote opens here"),
        (f"{HEAD}\n{'x' * 200_000}{LINE}\n", "line 2: .*field limit"),
    ],
)
def test_a_file_that_cannot_be_read_says_the_line(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(ScalewrightError, match=said):
        of(tmp_path, text)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"devices": "16"}, "devices: got 16; allowed: 8, which is tensor 8 x pipeline 1 x"),
        ({"dp": "", "devices": "12"}, "devices: got 12; allowed: a multiple of 8"),
        ({"devices": "16", "zero": ""}, "devices: got 16; allowed: 8"),
        ({"global_batch": "6"}, "global_batch: got 6; allowed: a multiple of 4"),
        ({"seq_parallel": "maybe"}, "seq_parallel: got 'maybe'; allowed: yes, no"),
        ({"tp": "many"}, "tp: got 'many'"),
        ({"source_kind": "guess"}, "source_kind: got 'guess'"),
        ({"seq": ""}, "seq: got nothing"),
    ],
)
def test_a_contradiction_is_told_in_the_words_of_the_file(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    row = only(tmp_path, **changes)
    assert row["status"] == "skipped"
    assert row["reason"].startswith(said)


def test_a_row_is_no_faster_than_itself(tmp_path: Path) -> None:
    own = FIXED | {"metric": "speedup", "unit": "x", "label": "a", "against": "a"}
    file = written(tmp_path, [own], [*HEADER, "label", "against"])
    assert "the row itself" in reproductions.run(rows_path=file)["rows"][0]["reason"]


@pytest.mark.parametrize("option", ["--picture", "--page", "--write"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_priced(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
) -> None:
    ending = {"--picture": "png", "--page": "html", "--write": "md"}[option]
    monkeypatch.setattr(reproductions, "run", lambda *_, **__: pytest.fail("rows were priced"))
    for name in (f"none/x.{ending}", "x.txt"):
        assert main(["reproduce", option, str(tmp_path / name)]) == 2
        assert option.strip("-") in capsys.readouterr().err
    (tmp_path / f"folder.{ending}").mkdir()
    assert main(["reproduce", option, str(tmp_path / f"folder.{ending}")]) == 2
    assert "it is a folder" in capsys.readouterr().err


def test_entries_that_are_not_there_are_refused_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, [FIXED])
    with pytest.raises(ScalewrightError, match=r"none\.toml"):
        reproductions.run(rows_path=file, overrides=[tmp_path / "none.toml"])
    with pytest.raises(ScalewrightError, match=r"none\.toml"):
        ablation(rows_path=file, overrides=[tmp_path / "none.toml"])


def test_an_ablation_takes_entries_of_ones_own_and_makes_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, [FIXED])
    slow = tmp_path / "slow.toml"
    slow.write_text(
        'kind = "device"\nbase = "a100-sxm-80gb"\nspeed_spread = 0.1\n'
        '[sources]\nspeed_spread = "a test"\n'
    )
    plain, changed = (ablation(rows_path=file, overrides=own) for own in ([], [slow]))
    assert plain["base"] != changed["base"]
    assert main(["reproduce", "--rows", str(file), "--ablation", "--page", "x.html"]) == 2
    assert "only without --ablation" in capsys.readouterr().err


def test_an_ablation_of_rows_that_cannot_be_priced_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, [FIXED | {"value": "x"}])
    assert main(["reproduce", "--rows", str(file), "--ablation"]) == 2
    assert "no priced row" in capsys.readouterr().err


KERNELS = "system,gemm_dtype,m,n,k,latency_us", "h100_sxm,bfloat16,1024,4096,4096,60"
COLLECTIVES = (
    "system,op_name,nccl_dtype,num_gpus,message_elements,latency_us",
    "a100_sxm,all_gather,half,2,4194304,60",
)


@pytest.mark.parametrize(("head", "line"), [KERNELS, COLLECTIVES])
def test_lines_of_kernels_and_collectives_are_not_read_as_shifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, line: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"{head},time_us\n{line}\n{line},\n{line},70\n{line},,\n{line},60\n")
    assert main(["reproduce", "--rows", str(file)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "skipped 1 (rows.csv:2): cells: got 6; allowed: 7" in told
    assert "skipped 1 (rows.csv:4): " in told
    assert "got '60' and '70'; allowed: one value in columns 'latency_us' and 'time_us'" in told
    assert "rows.csv:3" not in told
    assert "rows.csv:5" not in told


@pytest.mark.parametrize("head", [KERNELS[0], COLLECTIVES[0]])
def test_tables_of_kernels_and_collectives_without_rows_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(head + "\n")
    assert main(["reproduce", "--rows", str(file)]) == 2
    assert "no row below the header" in capsys.readouterr().err


def test_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert main(["reproduce", "--rows", str(pipe)]) == 2
    assert "no regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "column", ["params_B", "gradient_accumulation_steps", "gpus_per_node", "nodes", "dp_shard"]
)
@pytest.mark.parametrize("cell", ["auto", "46.7 (12.9 active)", "8 each", "1e40", "?!"])
def test_what_only_adds_to_a_row_cannot_spoil_it(tmp_path: Path, column: str, cell: str) -> None:
    file = tmp_path / "own.csv"
    head = f"model,system,gpus,seq,gbs,mbs,tp,pp,dtype,{column},MFU"
    run = f"Llama 2 7B,DGX H100,16,4096,64,1,2,1,bf16,{cell},40"
    file.write_text(f"{head}\n{run}\n", encoding="utf-8")
    assert reproductions.run(rows_path=file)["rows"][0]["status"] == "searched"
