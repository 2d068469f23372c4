"""Does each term of the cost of kernels change some kernel, and is it told what it is worth?"""

from __future__ import annotations

from typing import Any

import pytest

from scalewright.reproductions.kernels.ablation import (
    SWITCHES,
    kernel_ablation,
    kernel_ablation_table,
)


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return kernel_ablation()


def test_each_term_changes_kernels_of_its_kinds(found: dict[str, Any]) -> None:
    changed = {(term["kind"], term["term"]) for term in found["terms"]}
    assert changed == {(kind, switch.name) for switch in SWITCHES for kind in switch.kinds}


def test_each_term_earns_its_place_on_kernels_that_fitted_no_constant(
    found: dict[str, Any],
) -> None:
    for term in found["terms"]:
        base = found["base"][term["kind"]]
        assert term["rows"] == base["rows"], term
        assert term["mean_abs_error"] > base["mean_abs_error"], term


def test_the_table_names_each_term_once(found: dict[str, Any]) -> None:
    lines = [line for line in kernel_ablation_table(found).split("\n") if line.startswith("| ")]
    assert len(lines) == 1 + len(found["base"]) + len(found["terms"])
    assert len({tuple(line.split(" | ")[:2]) for line in lines}) == len(lines)
    assert all(line.count("|") == 8 for line in lines)
