"""Does a metric's name say the time, or the device hours, of a run of so many tokens?"""

from __future__ import annotations

import re
from dataclasses import dataclass

_AMOUNT = r"([0-9]{1,5}(?:\.[0-9]{1,3})?) ?(m|b|t|million|billion|trillion)\+?"
_TRAINED = r"(?:total )?(?:pre[- ]?)?train(?:ing)?"
_DEVICE = r"(?:gpu|device|chip|accelerator|npu|tpu|hpu)"
_BOARD = r"(?:[abhv][0-9]{2,4}|mi[0-9]{3}x?|gh200|gb[0-9]{3})"
_HOURS = re.compile(
    rf"{_TRAINED} time \({_DEVICE}[- ]hours\)"
    rf"|(?:(?:total|training) )?(?:{_BOARD} )?(?:{_DEVICE}|{_BOARD})[- ]hours(?: of training)?"
)
"""`GPU hours`, `H100 GPU-hours`, `training time (GPU hours)`."""
_CLOCK = re.compile(
    rf"(?:{_TRAINED}|wall[- ]?clock|(?:total )?run) (?:time|duration|days?|hours?|minutes?)"
    r"|(?:days?|hours?) (?:to|of) train(?:ing)?"
    rf"|time(?= (?:to|for) {_AMOUNT} tokens)"
)
"""`training time`, `run time`, `wall clock hours`, `days to train`."""
_UNIT = re.compile(r"(?:day|hour|minute)s?")
_OVER = re.compile(
    rf" (?:for|of|on|over|to) {_AMOUNT} tokens(?: \([^()]{{1,40}}\))?"
    rf"| \((?:(?:for|of|on|over) )?{_AMOUNT} tokens(?:[,;] [^()]{{1,40}})?\)"
    rf"| \((?:([0-9]{{1,2}}) epochs (?:of|over)) {_AMOUNT} tokens\)"
    rf"| \((?:pre[- ]?)?train(?:ing|ed)? (?:for|on) {_AMOUNT}(?: tokens)?\)"
)
_BILLIONS = {"m": 1e-3, "b": 1.0, "t": 1e3}


@dataclass(frozen=True)
class WholeRun:
    """What a metric of a whole run says."""

    kind: str
    """The engine's name up to its tokens: `training_time` or `gpu_hours`."""
    unit: str
    """The unit of time that the name tells; empty where it tells none."""
    billions: float | None = None
    """Tokens of the run; none where the name does not tell them."""

    @property
    def metric(self) -> str:
        """The engine's name, as `gpu_hours_for_2000000m_tokens`; of known tokens."""
        return of_tokens(self.kind, self.billions or 0.0)


def of_tokens(kind: str, billions: float) -> str:
    """Return the engine's name of the time or the device hours of so many tokens."""
    return f"{kind}_for_{billions * 1e3:.0f}m_tokens"


def whole_run(metric: str) -> WholeRun | None:
    """Return what a metric says of a whole run; none where it speaks of none.

    `training time`, `GPU-hours (1.5T tokens)`, `days to train on 1T tokens`.
    """
    words = " ".join(metric.casefold().replace("_", " ").split())
    for kind, pattern in (("gpu_hours", _HOURS), ("training_time", _CLOCK)):
        if (begun := pattern.match(words)) is None:
            continue
        told = _UNIT.search(begun[0])
        unit = "h" if kind == "gpu_hours" else (told[0] if told is not None else "")
        rest = words[begun.end() :]
        if not rest:
            return WholeRun(kind, unit)
        if (over := _OVER.fullmatch(rest)) is not None:
            *epochs, amount, scale = (part for part in over.groups() if part is not None)
            times = float(epochs[0]) if epochs else 1.0
            return WholeRun(kind, unit, times * float(amount) * _BILLIONS[scale[0]])
    return None
