"""How does a person read a number of seconds, bytes, joules or dollars?"""

from __future__ import annotations

_GIB = 2.0**30
_DAY_S = 86400.0
_NOTHING_S = 1e-15
"""What is shorter is left of sums and differences: nothing that is priced takes a femtosecond."""
_NEARLY = 1 - 0.5e-4
"""Of a unit: to four figures this is one of it."""


def figures(number: float, digits: int, *, padded: bool = False) -> str:
    """Return a number to so many figures and never as a power of ten, `padded` with zeros."""
    rounded, _, power = f"{number:.{digits - 1}e}".partition("e")
    if not power:
        return rounded  # infinite, or no number
    written = f"{number:,.{max(0, digits - 1 - int(power))}f}"
    return written if padded or "." not in written else written.rstrip("0").rstrip(".")


def time(seconds: float) -> str:
    """Return a time with the unit that suits it."""
    if seconds >= 2 * _DAY_S:
        return f"{seconds / _DAY_S:,.1f} days"
    for least, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        # what rounds to a whole unit is told in it
        if seconds >= least * _NEARLY:
            return f"{figures(seconds / least, 4, padded=True)} {unit}"
    return f"{figures(seconds * 1e9, 3)} ns" if seconds >= _NOTHING_S else "0"


def time_unit(largest_s: float) -> tuple[str, float]:
    """Return the unit for a column of times up to `largest_s`, and its length in seconds."""
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if largest_s >= length:
            return unit, length
    return "us", 1e-6


def gib(amount_bytes: float) -> str:
    """Return bytes in GiB, without the unit."""
    return f"{amount_bytes / _GIB:,.2f}"


def size(amount_bytes: float) -> str:
    """Return bytes with the unit that suits them."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if amount_bytes >= 1024.0**power:
            return f"{amount_bytes / 1024.0**power:,.2f} {unit}"
    return f"{amount_bytes:,.0f} B"


def size_unit(largest_bytes: float) -> tuple[str, float]:
    """Return the unit for a column of sizes up to `largest_bytes`, and its length in bytes."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB")):
        if largest_bytes >= 1024.0**power:
            return unit, 1024.0**power
    return "KiB", 1024.0


def energy(joules: float) -> str:
    """Return an energy in J, kWh or MWh."""
    kilowatt_hours = joules / 3.6e6
    if kilowatt_hours >= 99.95:
        return f"{kilowatt_hours / 1000:,.2f} MWh"
    if kilowatt_hours < 1e-3:
        return f"{figures(joules, 3)} J"
    return f"{figures(kilowatt_hours, 3, padded=True)} kWh"


def dollars(amount: float | None) -> str:
    """Return an amount of money."""
    if amount is None:
        return "unknown (no price in the catalog)"
    if amount < 1:
        return f"{figures(amount, 3)} USD"
    return f"{amount:,.0f} USD" if amount >= 1000 else f"{amount:,.2f} USD"


def share(ratio: float) -> str:
    """Return a ratio in percent."""
    return f"{ratio:.1%}"


def rate(flops_per_s: float) -> str:
    """Return an arithmetic rate in TFLOP/s."""
    return f"{flops_per_s / 1e12:,.1f} TFLOP/s"


def whole(number: float) -> str:
    """Return a number without a fraction."""
    return f"{number:,.0f}"


def number(how_many: int, of: str) -> str:
    """Return a number of things, each of which is called `of`."""
    plural = of if how_many == 1 else f"{of}{'es' if of.endswith('ch') else 's'}"
    return f"{how_many:,} {plural}"


def count(number: float) -> str:
    """Return a count; large ones with a letter."""
    for least, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= least:
            return f"{figures(number / least, 4)}{letter}"
    return f"{number:,.0f}"
