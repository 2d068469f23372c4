"""What do the dollars of an answer stand for: rent, nodes, or devices alone?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from scalewright.catalog.defaults import defaults
from scalewright.catalog.money import dollars

if TYPE_CHECKING:
    from scalewright.planning import System


def price_basis(system: System) -> str:
    """Return what is paid for machines of a system, as a part of a sentence."""
    site = cast("dict[str, Any]", defaults()["site"])
    price = {**site, **cast("dict[str, Any]", system.table.get("price", {}))}
    if rent := price.get("rent_per_device_hour"):
        return f"rent of {_amount(rent)} a device and hour, energy within"
    energy = _amount(price["energy_per_kwh"])
    lasting = f"written off over {price['lifetime_years']:g} years, and {energy} a kWh"
    if node := price.get("node"):
        return f"nodes of {_amount(node)} each, {lasting}"
    if device := system.device.get("price"):
        return f"devices of {_amount(device)} each, without what else is in a node, {lasting}"
    return "unknown: the catalog has no price of a node or a device"


def _amount(text: str) -> str:
    """Return an amount of the catalog in dollars, its thousands apart."""
    return f"{dollars(text):,.10g} USD"
