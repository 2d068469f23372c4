"""What do the tiers of a device or system cost to use, where their entries leave it open?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from scalewright.catalog.toml_file import Table, named_members, read_table
from scalewright.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

# what a technology says of itself, not of a tier
_LABELS = ("kind", "source")


@cache
def technologies() -> Mapping[str, Table]:
    """Return the technologies of the catalog by name: energy, price and wear of memory."""
    return read_table(files("scalewright.catalog") / "technologies.toml")


def with_technologies(tiers: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return tiers with the fields that they leave open taken from their technology.

    Raises:
        UnknownNameError: A tier names a technology that is not in the catalog.
    """
    return [_filled(tier) for tier in tiers]


def with_costs(entry: Mapping[str, Any]) -> Table:
    """Return a device or system with its memory tiers filled by `with_technologies`."""
    result = dict(entry)
    tiers = named_members(result.get("tiers"))
    if tiers is not None:
        result["tiers"] = with_technologies(tiers)
    host = result.get("host")
    if isinstance(host, Mapping):
        said = cast("Mapping[str, Any]", host)
        own = {"capacity": said.get("memory", 0), "bandwidth": said.get("memory_bandwidth", 0)}
        tier = {"name": "ddr", "kind": "ddr", **own, **said.get("tier", {})}
        result["host"] = {**said, "tier": _filled(tier)}
    return result


def _filled(tier: Mapping[str, Any]) -> Table:
    known = technologies()
    name = tier.get("technology")
    if name is None:
        kind = tier.get("kind")
        name = next((key for key, of in known.items() if of["kind"] == kind), None)
    elif name not in known:
        where = f"tiers.{tier.get('name', '?')}.technology"
        message = f"{where}: unknown name '{name}'; known: {', '.join(known)}"
        raise UnknownNameError(message)
    if name is None:
        return dict(tier)  # the engine says what is wrong with its kind
    figures = {key: value for key, value in known[name].items() if key not in _LABELS}
    return {**figures, **tier, "technology": name}
