"""What does it cost to cross from Python to the engine, and to plan a job from the command line?"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from scalewright._engine import Cluster, Job, Workload, estimate, estimate_many, version
from scalewright.catalog import load_device, load_model, load_system

if TYPE_CHECKING:
    from collections.abc import Callable

PLAN = {"tensor": 8, "pipeline": 16, "data": 8, "zero": 1}
COMMAND = ["plan", "--model", "gpt3-175b", "--system", "dgx-a100-80gb", "--devices", "1024"]
SETTINGS = ["--global-batch", "1536", "--sequence", "2048"]


def seconds(call: Callable[[], object], calls: int, rounds: int = 7) -> float:
    """Return the median over rounds of the time of one call."""

    def one_round() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls

    return median(one_round() for _ in range(rounds))


def gpt3() -> Job:
    """Return GPT-3 175B on 1,024 A100."""
    system = load_system("dgx-a100-80gb")
    parts = {"devices": 1024, "system": system, "device": load_device(str(system["device"]))}
    training = json.dumps({"global_batch": 1536, "sequence": 2048})
    workload = Workload(json.dumps(load_model("gpt3-175b")))
    return Job(workload, Cluster(json.dumps(parts)), training)


def plan_command() -> None:
    """Run the whole process."""
    command = [sys.executable, "-c", "from scalewright.cli import main; main()"]
    subprocess.run([*command, *COMMAND, *SETTINGS], check=True, capture_output=True)


def main() -> None:
    """Measure and print."""
    job, plan = gpt3(), json.dumps(PLAN)
    columns = list(PLAN)
    one = np.array([list(PLAN.values())])
    many = np.tile(one, (100_000, 1))
    crossing = seconds(version, 100_000)
    alone = seconds(lambda: estimate(job, plan), 1_000)
    row = seconds(lambda: estimate_many(job, columns, one), 100)
    rows = seconds(lambda: estimate_many(job, columns, many), 1)
    print(f"an empty call: {crossing * 1e9:.0f} ns")
    print(f"estimate, JSON to JSON: {alone * 1e6:.1f} us")
    print(f"estimate_many, one row: {row * 1e6:.0f} us")
    print(f"estimate_many, 100,000 equal rows: {rows / len(many) * 1e9:.0f} ns a row")
    print(f"scalewright {' '.join(COMMAND)}: {seconds(plan_command, 1, 5):.3f} s, whole process")


if __name__ == "__main__":
    main()
