"""How many plans a second does a search of well-known jobs go through, and how many does it price?

Run it as `python benches/search_spaces.py [--quick] [--write PAGE]`, or `make bench-search`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import scalewright as sw
from scalewright.report.plans import plan_line

SPACES = Path(__file__).parent / "spaces"
METHODS = ("exhaustive", "bounds")
FRONTS = {"none": (), "time, memory": ("time", "memory")}
"""What a search keeps besides the best plan, by the name in the table."""
ENOUGH_S = 5.0
"""Shorter searches run again, up to `RUNS` times, and the quickest run counts."""
RUNS = 3
CALCULON_COUNT = 3_232_128
"""What Calculon's own loops count for 175B on 64, illegal plans and all."""


@dataclass(frozen=True)
class Job:
    """A model on machines, and the space of its plans."""

    name: str
    model: str
    system: str
    devices: int
    global_batch: int
    sequence: int
    spaces: tuple[str, ...] = ("reference",)
    """Files in `benches/spaces`; fields of a later one take the place of an earlier one's."""
    threads: int = 1
    precision: str = "bf16"

    def space(self) -> dict[str, Any]:
        """Return the allowed values by plan field."""
        fields: dict[str, Any] = {}
        for name in self.spaces:
            fields |= tomllib.loads((SPACES / f"{name}.toml").read_text(encoding="utf-8"))
        return fields


A100 = "dgx-a100-80gb"
JOBS = (
    # batch: Narayanan et al. 2021, table 1
    Job("GPT-3 175B on 64 A100", "gpt3-175b", A100, 64, 1536, 2048),
    Job("GPT-3 175B on 1,024 A100", "gpt3-175b", A100, 1024, 1536, 2048),
    Job("GPT-3 175B on 4,096 A100", "gpt3-175b", A100, 4096, 1536, 2048),
    # batches: Korthikanti et al. 2022; Narayanan et al. 2021, table 1
    Job("Megatron-1T on 512 A100", "megatron-1t", A100, 512, 512, 2048),
    Job("Megatron-1T on 3,072 A100", "megatron-1t", A100, 3072, 3072, 2048),
    # Llama Team 2024, table 4
    Job("Llama 3 405B on 16,384 H100", "llama3-405b", "llama3-roce", 16384, 2048, 8192),
    # DeepSeek-AI 2024, section 4.2
    Job(
        "DeepSeek-V3 on 2,048 H800",
        "deepseek-v3",
        "h800-cluster",
        2048,
        15360,
        4096,
        spaces=("reference", "expert"),
        precision="fp8",
    ),
    # the batch for which Calculon's loops count 3,232,128 executions
    Job("Calculon's grid, 175B on 64 A100", "gpt3-175b", A100, 64, 64, 2048, ("calculon",)),
    Job(
        "Large space, 175B on 1,024 A100",
        "gpt3-175b",
        A100,
        1024,
        1536,
        2048,
        spaces=("reference", "large"),
        threads=2,
    ),
)

SWEEP = {
    "devices": [768, 1024],
    "constants": {
        "device.memory.capacity": [0.5, 0.75, 1, 1.5, 2],
        "device.memory.bandwidth": [0.7, 1, 1.4, 2, 3],
        "device.matrix_peak": [0.5, 1, 2, 4],
        "fabric.hdr-infiniband.bandwidth": [0.5, 1, 2, 4, 8],
    },
}
"""1,000 variants of the machines of `JOBS[1]`, each searched over the default space."""
SWEEP_COLUMNS = (
    "method",
    "threads",
    "variants",
    "with a plan that fits",
    "excluded by a bound",
    "legal plans",
    "plans priced",
    "seconds",
    "best step, s",
)

QUICK = {"tensor": [8], "context": [1], "pipeline": [8], "micro_batch": [1], "interleave": [1]}
"""One mesh, for a run that shows that all of it works."""


@dataclass(frozen=True)
class Row:
    """What one search of a job counted, and how long it took."""

    job: Job
    method: str
    front: str
    legal: int
    priced: int
    excluded: int
    not_fitting: int
    seconds: float
    plan: dict[str, Any] | None
    step_time_s: float | None

    @property
    def core_seconds(self) -> float:
        """Return seconds times threads."""
        return self.seconds * self.job.threads

    def cells(self) -> list[str]:
        """Return the row of the table, as text."""
        rate = self.legal / self.core_seconds
        pruned = self.excluded / self.legal if self.legal else 0.0
        return [
            self.job.name,
            self.method,
            self.front,
            str(self.job.threads),
            f"{self.legal:,}",
            f"{self.priced:,}",
            f"{self.excluded:,}",
            f"{self.not_fitting:,}",
            f"{self.seconds:.3f}",
            f"{rate:,.0f}",
            f"{1e9 / rate:.1f}" if rate else "-",
            f"{self.priced / self.core_seconds:,.0f}",
            f"{pruned:.1%}",
        ]


COLUMNS = (
    "job",
    "method",
    "front",
    "threads",
    "legal plans",
    "priced",
    "excluded by bounds",
    "not fitting",
    "seconds",
    "plans/s and core",
    "ns of a core per plan",
    "priced/s and core",
    "pruned",
)


def search(job: Job, method: str, front: str, quick: bool) -> dict[str, Any]:
    """Search a job in this process and return what is counted, of the quickest run."""
    model, system = sw.model(job.model), sw.system(job.system, job.devices)
    training = sw.Training(job.global_batch, job.sequence, precision=job.precision)
    space = job.space() | (QUICK if quick else {})
    seconds: list[float] = []
    while True:
        start = time.perf_counter()
        found = sw.search(
            model, system, training, method=method, front=FRONTS[front], top=1, fix=space
        )
        seconds.append(time.perf_counter() - start)
        if quick or len(seconds) == RUNS or sum(seconds) >= ENOUGH_S:
            break
    told = found.to_dict()
    legal, priced, excluded = (
        told[f"plans_{name}"] for name in ("legal", "priced", "excluded_by_bound")
    )
    return {
        "method": method,
        "front": front,
        "legal": legal,
        "priced": priced,
        "excluded": excluded,
        "not_fitting": legal - priced - excluded,
        "seconds": min(seconds),
        "plan": found[0].plan.to_dict() if found.feasible else None,
        "step_time_s": found[0].step_time_s if found.feasible else None,
    }


def sweep(method: str, quick: bool) -> list[str]:
    """Search 1,000 variants of hardware in this process and return a row of the table."""
    job = JOBS[1]
    model, system = sw.model(job.model), sw.system(job.system, job.devices)
    training = sw.Training(job.global_batch, job.sequence)
    start = time.perf_counter()
    found = sw.codesign(
        model, system, training, **SWEEP, method=method, top=1, fix=QUICK if quick else None
    )
    seconds = time.perf_counter() - start
    told = found.to_dict()
    counts = (
        "variants",
        "variants_with_plan",
        "variants_excluded_by_bound",
        "plans_legal",
        "plans_priced",
    )
    return [
        method,
        os.environ.get("RAYON_NUM_THREADS", "all"),
        *(f"{told[name]:,}" for name in counts),
        f"{seconds:.3f}",
        f"{found.best[0]['step_time_s']:.4f}",
    ]


def swept(quick: bool) -> list[list[str]]:
    """Sweep by each method in a process of its own, on two threads.

    Raises:
        RuntimeError: The methods found other best variants.
    """
    command = [sys.executable, __file__, "--sweep", *(["--quick"] if quick else [])]
    environment = {**os.environ, "RAYON_NUM_THREADS": "2"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    rows: list[list[str]] = json.loads(done.stdout)
    if len({row[-1] for row in rows}) > 1:
        message = "co-design: the methods do not agree"
        raise RuntimeError(message)
    return rows


def measured(number: int, quick: bool) -> list[Row]:
    """Search a job in a process of its own, on the job's threads, by each method and front."""
    job = JOBS[number]
    command = [sys.executable, __file__, "--one", str(number), *(["--quick"] if quick else [])]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(job.threads)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return [Row(job, **found) for found in json.loads(done.stdout)]


def same_answers(rows: list[Row]) -> None:
    """Refuse figures of searches that do not agree: methods and fronts change no answer.

    Raises:
        RuntimeError: Two searches of a job found other plans, or counted other legal plans.
    """
    for one in rows:
        for other in rows:
            if one.job == other.job and (one.legal, one.plan) != (other.legal, other.plan):
                message = f"{one.job.name}: {one.method} and {other.method} do not agree"
                raise RuntimeError(message)


def markdown(columns: tuple[str, ...], rows: list[list[str]]) -> str:
    """Return a table of a page; columns of figures lie to the right."""
    text = {"job", "method", "front", "best plan", "files of `benches/spaces`"}
    rule = ["---" if name in text else "---:" for name in columns]
    head = [f"| {' | '.join(columns)} |", f"|{'|'.join(rule)}|"]
    return "\n".join([*head, *(f"| {' | '.join(cells)} |" for cells in rows)])


def best_plans(rows: list[Row]) -> list[list[str]]:
    """Return job, step time and plan, once for each job."""
    found = {row.job: row for row in rows}
    return [
        [job.name, f"{row.step_time_s:.4f}", plan_line(row.plan)]
        if row.plan is not None
        else [job.name, "-", "none fits"]
        for job, row in found.items()
    ]


def machine(load: float) -> str:
    """Return processor, cores, memory, system and load in words; none of it names the machine."""
    processor = platform.processor() or platform.machine()
    memory = "memory unknown"
    described, sizes = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if described.exists():
        lines = described.read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    if sizes.exists():
        kib = int(sizes.read_text(encoding="utf-8").split()[1])
        memory = f"{kib / 2**20:.1f} GiB of memory"
    release = platform.release().partition("-")[0]
    return (
        f"{processor}, {os.cpu_count()} cores, {memory}; {platform.system()} {release}, "
        f"Python {platform.python_version()}; load average {load:.1f} at the start"
    )


def jobs_table() -> str:
    """Return what each job is."""
    columns = ("job", "global batch", "sequence", "files of `benches/spaces`")
    rows = [
        [job.name, f"{job.global_batch:,}", f"{job.sequence:,}", ", ".join(job.spaces)]
        for job in JOBS
    ]
    return markdown(columns, rows)


def page(rows: list[Row], variants: list[list[str]], load: float) -> str:
    """Return the page of the documentation, section by section."""
    grid = next(row for row in rows if row.job.spaces == ("calculon",))
    template = (Path(__file__).parent / "search_spaces.md").read_text(encoding="utf-8")
    parts = {
        "machine": machine(load),
        "jobs": jobs_table(),
        "rates": markdown(COLUMNS, [row.cells() for row in rows]),
        "sweep": markdown(SWEEP_COLUMNS, variants),
        "best": markdown(("job", "step, s", "best plan"), best_plans(rows)),
        "grid_legal": f"{grid.legal:,}",
        "grid_count": f"{CALCULON_COUNT:,}",
    }
    for name, text in parts.items():
        template = template.replace("{" + name + "}", text)
    return template


def show(rows: list[Row], variants: list[list[str]]) -> None:
    """Print the tables."""
    screen = Console(width=max(200, Console().width))
    rates = Table(*COLUMNS, title="Searches")
    for row in rows:
        rates.add_row(*row.cells())
    best = Table("job", "step, s", "best plan", title="Best plans")
    for cells in best_plans(rows):
        best.add_row(*cells)
    sweeps = Table(*SWEEP_COLUMNS, title="Sweep of hardware")
    for cells in variants:
        sweeps.add_row(*cells)
    screen.print(rates, best, sweeps)


def main() -> None:
    """Measure, print and, where asked, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one mesh of each job, once")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the page of the figures")
    parser.add_argument("--one", type=int, metavar="JOB", help="the searches of one job, as JSON")
    parser.add_argument("--sweep", action="store_true", help="the sweep of hardware, as JSON")
    asked = parser.parse_args()
    if asked.sweep:
        print(json.dumps([sweep(method, asked.quick) for method in METHODS]))
        return
    if asked.one is not None:
        job, kinds = JOBS[int(asked.one)], product(FRONTS, METHODS)
        print(json.dumps([search(job, method, front, asked.quick) for front, method in kinds]))
        return
    load = os.getloadavg()[0]
    rows = [row for number in range(len(JOBS)) for row in measured(number, asked.quick)]
    same_answers(rows)
    variants = swept(asked.quick)
    show(rows, variants)
    if asked.write:
        asked.write.write_text(page(rows, variants, load), encoding="utf-8")


if __name__ == "__main__":
    main()
