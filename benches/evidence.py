"""Prices all published results and writes the residuals, the page of evidence, README's table."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path

from scalewright.reproductions import run
from scalewright.reproductions.ablation import ablation
from scalewright.reproductions.evidence import (
    ablation_of,
    ablation_table,
    recorded_results,
    write_evidence,
    write_residuals,
)
from scalewright.reproductions.kernels.ablation import kernel_ablation, kernel_ablation_table
from scalewright.reproductions.ratchet import as_text, errors_of, grown, tightened
from scalewright.reproductions.reading import unseen_path

ROOT = Path(__file__).parents[1]
PAGE, README = ROOT / "docs" / "evidence.md", ROOT / "README.md"
RATCHET = ROOT / "tests" / "python" / "ratchet.csv"


def main() -> int:
    """Write what is asked for; fail where the error of a paper has grown beyond its slack."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep-ablation", action="store_true", help="do not price it again")
    parser.add_argument(
        "--ratchet", action="store_true", help="record the errors as they are, also where they grew"
    )
    asked = parser.parse_args()
    write_residuals(run()["rows"], run(rows_path=unseen_path())["rows"])
    told = ablation_of(PAGE) if asked.keep_ablation else _ablations()
    write_evidence(PAGE, README, told)
    errors = errors_of(recorded_results())
    with RATCHET.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    worse = [] if asked.ratchet else grown(errors, records)
    if not worse:
        kept = errors if asked.ratchet else tightened(errors, records)
        RATCHET.write_text(as_text(kept), encoding="utf-8")
    for line in worse:
        print(line, file=sys.stderr)
    return 1 if worse else 0


def _ablations() -> str:
    """Price steps and timed kernels without each term of their cost."""
    return f"{ablation_table(ablation())}\n\n{kernel_ablation_table(kernel_ablation())}"


if __name__ == "__main__":
    sys.exit(main())
