"""Is a published MFU taken as a share of the peak that its run's own rate tells?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from scalewright import reproductions

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = "paper,hardware,devices,model,seq,gbs,mbs,dp,dtype,metric,value,unit"
_RATE = "tokens_per_s_per_gpu"


def _priced(tmp_path: Path, dtype: str, *figures: tuple[str, float, str]) -> list[dict[str, Any]]:
    file = tmp_path / "rows.csv"
    rows = [
        f"a report,B200,8,llama3-8b,4096,64,2,8,{dtype},{metric},{value},{unit}"
        for metric, value, unit in figures
    ]
    file.write_text("\n".join([_COLUMNS, *rows]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


@pytest.mark.parametrize("dtype", ["fp8", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("speed", [0.2, 0.5, 0.9])
def test_a_share_of_either_peak_comes_as_near_as_its_rate(tmp_path: Path, dtype: str, speed: float):
    (rate,) = _priced(tmp_path, dtype, (_RATE, 9000.0, "tokens/s"))
    (mfu,) = _priced(tmp_path, dtype, ("MFU", 30.0, "%"))
    own, told = mfu["predicted"] * speed, rate["predicted"] * speed
    wide = {"fp8": 2.0, "mxfp8": 2.0, "nvfp4": 4.0}[dtype] * own
    for share in (own, wide):
        as_rate, as_share = _priced(tmp_path, dtype, (_RATE, told, "tokens/s"), ("MFU", share, "%"))
        assert as_share["error"] == pytest.approx(as_rate["error"], rel=1e-3, abs=1e-6)
        assert ("of the peak in bf16" in (as_share["note"] or "")) == (share == wide)


def test_nothing_is_taken_where_no_rate_or_more_than_one_is_told(tmp_path: Path):
    (alone,) = _priced(tmp_path, "fp8", ("MFU", 60.0, "%"))
    *_, among = _priced(
        tmp_path,
        "fp8",
        (_RATE, 9000.0, "tokens/s"),
        ("step time", 3.6, "s"),
        ("MFU", 60.0, "%"),
    )
    *_, wide = _priced(tmp_path, "bf16", (_RATE, 9000.0, "tokens/s"), ("MFU", 60.0, "%"))
    for row in (alone, among, wide):
        assert "of the peak in bf16" not in (row["note"] or "")
    assert alone["predicted"] == among["predicted"]
