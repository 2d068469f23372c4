"""Do fits to a user's kernels keep what their rows do not tell, and refuse rows that cannot be?"""

from __future__ import annotations

import itertools
import json
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import scalewright as sw
from scalewright import InvalidError
from scalewright.calibration import calibrate_products, calibrate_serving, timed_kernels
from scalewright.calibration.kernels import folds
from scalewright.calibration.known import own_numbers, were_measured
from scalewright.catalog import load_device, with_costs
from scalewright.cli import main
from scalewright.reproductions import kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from scalewright.calibration import KernelCalibration

Shape = tuple[int, int, int]
SIDES = (1024, 2048, 4096, 8192, 16384)
SMALL = list(itertools.product((1, 4, 16, 64, 256), SIDES, SIDES))
BIG = list(itertools.product((4096, 8192), SIDES, SIDES))
GEMM_HEADER = "system,gemm_dtype,m,n,k,latency_us"
MOE_HEADER = (
    "system,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
    "distribution,latency_us"
)
PLAIN = {"kernel": "matmul", "a": "bf16", "b": "bf16", "output": "bf16"}


def written(path: Path, header: str, lines: Iterable[str]) -> str:
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return str(path)


def products(
    shapes: Sequence[Shape], device: Any = "h100-sxm", *, spelt: str = "bf16", noise: float = 0.03
) -> list[str]:
    """Lines of products with the times of a device, and noise."""
    columns = dict(zip("mnk", np.array(shapes).T.tolist(), strict=True))
    formats = {"a": "fp16", "b": "fp16", "output": "fp16"} if spelt == "fp16" else {}
    times = sw.kernel_times({**PLAIN, **formats}, device, columns) * 1e6
    times = times * np.exp(np.random.default_rng(3).normal(0.0, noise, len(shapes)))
    pairs = zip(shapes, times.tolist(), strict=True)
    return [f"h100-sxm,{spelt},{m},{n},{k},{time!r}" for (m, n, k), time in pairs]


def experts(tokens: Sequence[int]) -> list[str]:
    """Lines of mixtures with the catalog's times, and noise."""
    request = {"kernel": "experts", "rows": "bf16", "weight_bytes": 2.0, "gated": True}
    models = itertools.product(((4096, 14336), (2048, 768), (5120, 1536)), ((2, 8), (8, 64)))
    cases = [(n, *a, *b) for n, (a, b) in itertools.product(tokens, list(models))]
    names = ("tokens", "hidden", "intermediate", "topk", "experts")
    shapes: dict[str, Any] = dict(zip(names, np.array(cases).T.tolist(), strict=True))
    shapes |= {"tensor_parallel": 1, "expert_parallel": 1, "skew": 0, "random": 0}
    times = sw.kernel_times({**request, "warm": True}, "h100-sxm", shapes) * 1e6
    times = times * np.exp(np.random.default_rng(3).normal(0.0, 0.03, len(cases)))
    return [
        f"h100-sxm,bf16,{','.join(map(str, case))},1,1,balanced,{time!r}"
        for case, time in zip(cases, times.tolist(), strict=True)
    ]


def off(rows: str, override: str, tmp_path: Path) -> float:
    """The median error of rows with fitted constants."""
    entries: list[Path] = []
    if override:
        entries = [tmp_path / "my.toml"]
        entries[0].write_text(override, encoding="utf-8")
    found = kernels.run(rows_path=rows, overrides=entries)["rows"]
    return float(np.median([abs(row["error"]) for row in found]))


def kept_of(found: KernelCalibration) -> set[str]:
    (family,) = found.families
    return {line["name"] for line in family["constants"] if line["status"] == "kept"}


@pytest.mark.parametrize(("fitted", "judged"), [(SMALL, BIG), (BIG, SMALL)])
def test_products_of_one_size_leave_what_others_tell_alone(
    tmp_path: Path, fitted: list[Shape], judged: list[Shape]
) -> None:
    rows, device, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, products(fitted))])
    found = calibrate_products(rows, device)
    others = written(tmp_path / "b.csv", GEMM_HEADER, products(judged))
    assert off(others, found.override, tmp_path) < 0.04


def test_mixtures_of_few_tokens_leave_what_many_tell_alone(tmp_path: Path) -> None:
    few = written(tmp_path / "few.csv", MOE_HEADER, experts((1, 2, 4, 8, 16)))
    many = written(tmp_path / "many.csv", MOE_HEADER, experts((2048, 8192, 32768)))
    rows, device, _ = timed_kernels([few], kinds=("moe",))
    found = calibrate_serving(rows, device)
    assert off(many, found.override, tmp_path) < 0.04
    assert "experts.bf16.efficiency" in kept_of(found)
    # from values of no device they land anywhere
    lost = calibrate_serving(rows, device, afresh=True, force=True)
    assert kept_of(lost) == set()
    assert off(many, lost.override, tmp_path) > 0.1


def test_what_rows_tell_is_fitted_and_the_rest_is_not_written(tmp_path: Path) -> None:
    device = load_device("h100-sxm")
    slow = {**device["matmul"], "memory_efficiency": 0.6}
    lines = products([*SMALL, *BIG], {**device, "matmul": slow})
    rows, fields, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, lines)])
    found = calibrate_products(rows, fields)
    text = tomllib.loads(found.override)
    assert text["matmul"]["memory_efficiency"] == pytest.approx(0.6, rel=0.03)
    assert "launch_overhead" not in text
    # what was measured of the device before still holds, and is told
    assert "measured" not in text["calibration"]
    assert text["calibration"]["basis"].startswith(device["calibration"]["basis"])


def test_a_device_that_nobody_measured_begins_at_values_of_none(tmp_path: Path) -> None:
    assert were_measured(load_device("h100-sxm"))
    assert not were_measured(load_device("h800-sxm"))
    file = written(tmp_path / "a.csv", GEMM_HEADER, products([*SMALL, *BIG]))
    rows, device, _ = timed_kernels([file], "h800-sxm")
    found = calibrate_products(rows, device, force=True)
    assert kept_of(found) == set()
    assert tomllib.loads(found.override)["calibration"]["measured"] is True


def test_constants_are_read_in_their_units() -> None:
    device = with_costs(load_device("h100-sxm"))
    paths = [("launch_overhead",), ("decode", "bf16", "tiled_row"), ("matmul", "depth_overhead")]
    paths += [("decode", "bf16", "unit_bandwidth"), ("matmul", "nothing"), ("name",)]
    assert own_numbers(device, paths) == pytest.approx(
        {paths[0]: 2.59e-6, paths[1]: 2.31e-12, paths[2]: 138.9, paths[3]: 25.5e9}
    )


def test_a_format_of_few_rows_fits_nothing_and_is_named(tmp_path: Path) -> None:
    lines = [*products([*SMALL, *BIG]), *products([(16, 1024, 1024)], spelt="fp16")]
    rows, device, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, lines)])
    found = calibrate_products(rows, device, afresh=True, force=True)
    names = {line["name"] for line in found.families[0]["constants"]}
    assert "matmul.efficiency.fp16" not in names
    (why,) = found.refused
    assert f"a.csv, line {len(lines) + 1}: shapes: got 1 in fp16" in why


def test_a_fit_worse_than_the_catalog_is_written_only_with_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times scatter widely about the catalog's, but for those that are held out."""
    shapes = [*SMALL, *BIG]
    exact, noisy = products(shapes, noise=0.0), products(shapes, noise=0.3)
    file = written(tmp_path / "exact.csv", GEMM_HEADER, exact)
    rows, _, _ = timed_kernels([file])
    apart = {line for _, line in kernels.rows.held_out(rows)}
    lines = [exact[at] if at + 2 in apart else noisy[at] for at in range(len(shapes))]
    file, out = written(tmp_path / "a.csv", GEMM_HEADER, lines), tmp_path / "my.toml"
    asked = ["calibrate", "gemm", file, "--afresh", "--out", str(out)]
    assert main(asked) == 1
    shown = capsys.readouterr().out
    assert "worse than the catalog's constants on rows held out" in shown
    assert "matmul keeps the catalog's constants; --force takes the fit" in shown
    assert not out.exists()
    assert main([*asked, "--force"]) == 0
    assert out.exists()


def test_brief_rows_speak_beside_longer_ones(tmp_path: Path) -> None:
    brief = products(list(itertools.product((1, 2, 3, 4, 5), (256, 512, 1024), (256, 512, 1024))))
    tenfold = [f"{line.rpartition(',')[0]},{float(line.rpartition(',')[2]) / 10}" for line in brief]
    lines = [*products(BIG), *tenfold]
    rows, device, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, lines)])
    found = calibrate_products(rows, device)
    errors = found.families[0]["errors"]["held_out"]
    assert errors["median_abs_error"] < 0.1
    assert errors["brief_share_within_1_5"] < 0.5
    assert not found.sound


def test_rows_that_reproduce_refuses_fit_nothing(tmp_path: Path) -> None:
    lines = products(BIG)
    first, _, time = lines[4].rpartition(",")
    # milliseconds among microseconds
    lines[4] = f"{first},{float(time) / 1e3!r}"
    file = written(tmp_path / "a.csv", GEMM_HEADER, lines)
    rows, _, wrong = timed_kernels([file])
    assert len(rows) == len(lines) - 1
    (why,) = wrong
    assert why.startswith(f"{file}, line 6: time: got")
    skipped = kernels.run(rows_path=file)["summary"]["skipped"]
    assert [why.partition(": ")[2]] == list(skipped)


def test_copies_of_a_shape_are_left_out_together(tmp_path: Path) -> None:
    lines = [line for line in products(SMALL) for _ in range(3)]
    rows, _, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, lines)])
    places = folds(rows)
    assert sorted(np.concatenate(places).tolist()) == list(range(len(rows)))
    shapes = [{rows[place].timed for place in fold.tolist()} for fold in places]
    assert sum(map(len, shapes)) == len(set[tuple[object, ...]]().union(*shapes)) == len(SMALL)


def test_spellings_of_one_device_are_held_out_alike(tmp_path: Path) -> None:
    lines = products(SMALL, noise=0.0)
    other = [line.replace("h100-sxm", "NVIDIA H100 80GB HBM3") for line in lines[7:]]
    rows, device, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, [*lines, *other])])
    (both,) = calibrate_products(rows, device).families
    rows, device, _ = timed_kernels([written(tmp_path / "a.csv", GEMM_HEADER, lines)])
    (one,) = calibrate_products(rows, device).families
    # the shapes that are held out of one spelling are those that are held out of both
    held = one["rows"]["held_out"]
    assert 2 * held - 7 <= both["rows"]["held_out"] <= 2 * held


def test_formats_that_run_in_16_bits_are_fitted_as_they_are_priced(tmp_path: Path) -> None:
    request = {**PLAIN, "b": "fp8"}
    columns = dict(zip("mnk", np.array([*SMALL, *BIG]).T.tolist(), strict=True))
    times = (sw.kernel_times(request, "a100-sxm-80gb", columns) * 1.3e6).tolist()
    lines = [
        f"a100-sxm-80gb,fp8,{m},{n},{k},{time!r}"
        for (m, n, k), time in zip([*SMALL, *BIG], times, strict=True)
    ]
    file = written(tmp_path / "a.csv", GEMM_HEADER, lines)
    rows, device, wrong = timed_kernels([file])
    assert not wrong
    found = calibrate_products(rows, device)
    assert found.families[0]["table"] == "matmul.weight_only.fp8"
    assert off(file, found.override, tmp_path) < 0.5 * off(file, "", tmp_path)


def test_a_format_that_cannot_be_fitted_names_its_line_and_column(tmp_path: Path) -> None:
    line = "a100-sxm-80gb,fp8,16,4096,14336,2,8,1,1,balanced,900"
    file = written(tmp_path / "a.csv", MOE_HEADER, [line])
    with pytest.raises(InvalidError, match=r"a\.csv, line 2: moe_dtype: got fp8.*; allowed: what"):
        timed_kernels([file], kinds=("moe",))
    header = (
        "system,data_type,batch_size,q_seqlen,num_q_heads,num_kv_heads,head_dim_qk,profile_pass,"
        "attn_mask,time_us"
    )
    line = "a100-sxm-80gb,fp8,1,512,8,8,64,fwd,top_left,1000000"
    file = written(tmp_path / "b.csv", header, [line])
    with pytest.raises(InvalidError, match=r"b\.csv, line 2: dtype: got fp8; allowed: formats of"):
        timed_kernels([file], kinds=("attention_forward",))


def test_refusals_name_files_lines_and_what_only_leaves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [*products(SMALL[:9]), "h100-sxm,bf16,1,x,3,4", "h100-sxm,bf16,1,y,3,4"]
    file = written(tmp_path / "few.csv", GEMM_HEADER, lines)
    assert main(["calibrate", "gemm", file]) == 2
    told = capsys.readouterr().err
    assert "few.csv: rows: got 6 of 6 shapes to fit matmul; allowed: 20" in told
    assert "left out: " in told
    assert "line 11: n: got 'x'; allowed: one whole number from 1 (so is 1 more, line 12)" in told
    assert main(["calibrate", "gemm", file, "--only", "nothing"]) == 2
    told = capsys.readouterr().err
    assert "--only: got 'nothing', which leaves no row; allowed: part of a system" in told
    assert "h100-sxm" in told


def test_a_device_of_ones_own_is_named_before_what_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own, system = tmp_path / "own.toml", tmp_path / "rack.toml"
    own.write_text('kind = "device"\nbase = "h100-sxm"\nname = "mine"\ntitle = "Mine"\n')
    system.write_text(
        'kind = "system"\nbase = "dgx-h100"\nname = "rack"\ntitle = "R"\ndevice = "mine"\n'
    )
    device = load_device("h100-sxm")
    slow = {**device, "matmul": {**device["matmul"], "memory_efficiency": 0.6}}
    file = written(tmp_path / "a.csv", GEMM_HEADER, products([*SMALL, *BIG], slow))
    asked = ["calibrate", "gemm", file, "--out", "my.toml"]
    assert main([*asked, "--system", "own.toml"]) == 0
    assert "take it with --catalog own.toml --catalog my.toml" in flat(capsys)
    assert main([*asked, "--catalog", "own.toml", "--system", "rack.toml"]) == 0
    places = ["own.toml", "rack.toml", "my.toml"]
    assert " ".join(f"--catalog {place}" for place in places) in flat(capsys)
    taken = load_device("mine", [tmp_path / place for place in places])
    assert taken["matmul"]["memory_efficiency"] == pytest.approx(0.6, rel=0.03)
    # what a fit begins at is not written over
    again = ["calibrate", "gemm", file, "--catalog", "my.toml", "--out", "my.toml"]
    assert main([*again, "--catalog", "own.toml"]) == 2
    assert "from which the fit starts" in capsys.readouterr().err


def flat(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_lines_that_are_wrong_alike_are_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [f"h100-sxm,bf16,1,{at}x,3,4" for at in range(40)]
    bad += ["h100-sxm,bf17,1,2,3,4"]
    file = written(tmp_path / "a.csv", GEMM_HEADER, [*products([*SMALL, *BIG]), *bad])
    assert main(["calibrate", "gemm", file]) == 0
    shown = flat(capsys)
    assert shown.count("left out: ") == 2
    assert "(so are 39 more, lines" in shown
    assert main(["calibrate", "gemm", file, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["left_out"]) == len(bad)
