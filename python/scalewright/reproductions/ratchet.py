"""Has the error of any paper grown beyond what was recorded of it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scalewright.reproductions.comparing import summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Result = dict[str, Any]
SLACK = 0.01
"""By how much a recorded error may grow, as a share of the figure, where a paper has ten rows."""
_FEW, _SLACK_OF_FEW = 10, 0.02


def errors_of(rows: Iterable[Result]) -> dict[str, tuple[int, float]]:
    """Return priced rows and mean size of their errors by paper."""
    told = summary(rows)["by_paper"]
    return {
        paper: (errors["rows_priced"] + errors["rows_searched"], errors["mean_abs_error"])
        for paper, errors in told.items()
        if errors["mean_abs_error"] is not None
    }


def as_text(errors: Mapping[str, tuple[int, float]]) -> str:
    """Return the errors as a CSV text with the slack of each."""
    lines = ["paper,rows,mean_abs_error,slack"]
    for paper, (rows, error) in errors.items():
        slack = SLACK if rows >= _FEW else _SLACK_OF_FEW
        lines.append(f'"{paper}",{rows},{error:.4f},{slack}')
    return "\n".join(lines) + "\n"


def tightened(
    errors: Mapping[str, tuple[int, float]], recorded: Iterable[Mapping[str, str]]
) -> dict[str, tuple[int, float]]:
    """Return the errors to record: of what was recorded and what is now, the better."""
    before = {r["paper"]: (int(r["rows"]), float(r["mean_abs_error"])) for r in recorded}
    return {
        paper: (max(rows, before[paper][0]), min(error, before[paper][1]))
        if paper in before
        else (rows, error)
        for paper, (rows, error) in errors.items()
    }


def grown(
    errors: Mapping[str, tuple[int, float]], recorded: Iterable[Mapping[str, str]]
) -> list[str]:
    """Return what has got worse: a sentence for each paper."""
    worse: list[str] = []
    for record in recorded:
        paper = record["paper"]
        before, slack = float(record["mean_abs_error"]), float(record["slack"])
        if paper not in errors:
            worse.append(f"{paper}: had {record['rows']} priced rows, has none")
            continue
        rows, now = errors[paper]
        if rows < int(record["rows"]):
            worse.append(f"{paper}: had {record['rows']} priced rows, has {rows}")
        if now > before + slack:
            worse.append(f"{paper}: mean error was {before:.1%}, is {now:.1%}; slack {slack:.1%}")
    return worse
