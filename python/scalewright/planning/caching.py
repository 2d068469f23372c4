"""Which share of accesses does a cache serve, by formula and over a trace?"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

from scalewright import _engine
from scalewright.config import json_text, named_as, need, need_progress
from scalewright.errors import InvalidError
from scalewright.planning.arguments import floats
from scalewright.planning.stamp import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    Floats = NDArray[np.float64]
    Progress = Callable[[int, int], Any]

_MOST = 2**62
_MOST_OBJECTS = 2**53


LAW_PATHS = {
    r"popularity\.(?:zipf\.)?objects": "objects",
    r"popularity\.(?:zipf\.)?exponent": "popularity",
    r"popularity\.measured": "popularity",
}
"""What a caller wrote of a law of popularity, by the engine's path."""


@dataclass(frozen=True, eq=False)
class CacheHits(Answer):
    """What caches serve in the long run; every array has the shape of the capacities.

    NumPy takes the answer itself for its array of hit rates.

    Attributes:
        policy: How the cache evicts, as `lru`.
        capacity: Objects that the cache holds.
        hit_rate: Accesses that find their object.
        byte_hit_rate: Bytes of them over the bytes of all accesses.
        characteristic_accesses: How many accesses an object stays without being used (LRU), or
            after it came in (FIFO, random); infinite where all fit, not a number for other
            policies.
    """

    policy: str
    capacity: Floats
    hit_rate: Floats
    byte_hit_rate: Floats
    characteristic_accesses: Floats

    def __array__(
        self, dtype: DTypeLike | None = None, *, copy: bool | None = None
    ) -> NDArray[Any]:
        """Return the hit rates."""
        import numpy as np

        return np.array(self.hit_rate, dtype=dtype, copy=copy)


@dataclass(frozen=True)
class CacheRun(Answer):
    """What a run of a trace through an empty cache came to.

    Attributes:
        accesses: Accesses of the trace.
        hits: Of those, accesses that found their object in the cache.
        misses: All accesses that were no hits.
        cold_misses: Of the misses, first accesses to an object.
        hit_bytes: Sizes of what was found: numbers of objects where they have no sizes.
        miss_bytes: Sizes of what was not.
    """

    accesses: int
    hits: int
    misses: int
    cold_misses: int
    hit_bytes: int
    miss_bytes: int

    @property
    def hit_rate(self) -> float:
        """Return hits over accesses; zero for an empty trace."""
        return self.hits / self.accesses if self.accesses else 0.0


def popularity_field(
    popularity: ArrayLike, objects: int | None, field: str = "popularity"
) -> dict[str, Any] | None:
    """Return a Zipf law as the engine reads it; None where weights were given.

    Raises:
        InvalidError: An exponent without objects, or something that is no number.
    """
    given = floats(field, popularity)
    if given.ndim == 1:
        return None
    if given.ndim > 1:
        message = f"{field}: got shape {given.shape}; allowed: an exponent, or a list of weights"
        raise InvalidError(message)
    if objects is None:
        message = "objects: got nothing; allowed: a count where popularity is an exponent"
        raise InvalidError(message)
    return {
        "zipf": {"objects": _whole("objects", objects, _MOST_OBJECTS), "exponent": float(given)}
    }


def cache_hits(
    capacity: ArrayLike,
    popularity: ArrayLike,
    *,
    policy: str = "lru",
    objects: int | None = None,
    sizes: ArrayLike | None = None,
    progress: Progress | None = None,
) -> CacheHits:
    """Return expected hit rates under independent references; capacities may be any array.

    Args:
        capacity: Objects that the cache holds, or bytes where they have sizes.
        popularity: The exponent of a Zipf law over `objects` objects, or a weight for each object.
        policy: `static` (the most popular stay), `lfu`, `lru`, `fifo`, `random` or `lifo`.
        objects: Objects of a Zipf law; billions cost no more than thousands.
        sizes: Bytes of each object, where weights are given.
        progress: Called with the capacities done and the capacities in all.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    import numpy as np

    need_progress(progress)
    need("policy", policy, str, "a name, as lru")
    rooms = floats("capacity", capacity)
    law = popularity_field(popularity, objects)
    weights = np.empty(0) if law else np.ascontiguousarray(floats("popularity", popularity))
    listed = np.empty(0) if sizes is None else floats("sizes", sizes)
    if listed.ndim != 1:
        message = f"sizes: got shape {listed.shape}; allowed: a list, one for each object"
        raise InvalidError(message)
    if law is None and objects is not None and _whole("objects", objects) != weights.size:
        message = f"objects: got {objects!r:.60}; allowed: none, or one for each of the weights"
        raise InvalidError(message)
    asked = {"policy": policy, **({"popularity": law} if law else {})}
    sizes_of, places = np.ascontiguousarray(listed), np.ascontiguousarray(rooms).ravel()
    with named_as(LAW_PATHS):
        text = json_text("", asked)
        found = _engine.cache_hits(text, places, weights, sizes_of, progress=progress)
    columns: Any = {name: of.reshape(rooms.shape) for name, of in found.items()}
    return CacheHits(policy, rooms, **columns)


def simulate_cache(
    trace: ArrayLike,
    capacity: int,
    *,
    policy: str = "lru",
    sizes: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> CacheRun:
    """Run a trace through an empty cache.

    Args:
        trace: Numbers of objects in the order of their use, from 0 and without large gaps.
        capacity: Objects that the cache holds, or bytes where they have sizes.
        policy: `static` (the most asked for in the trace), `lfu`, `lru`, `fifo`, `random`, `lifo`
            or `belady` (no policy serves more objects that are all alike).
        sizes: Bytes of each object, by number; left out, all are alike.
        seed: Of random eviction.
        progress: Called with the accesses done and the accesses in all.

    Raises:
        ScalewrightError: A value is wrong; says which.
    """
    import numpy as np

    need_progress(progress)
    need("policy", policy, str, "a name, as lru")
    room = _whole("capacity", capacity)
    chance = _whole("seed", seed)
    ids = _numbers("trace", trace, 2**32 - 1).astype(np.uint32, copy=False)
    bytes_of = np.empty(0, np.uint64)
    if sizes is not None:
        bytes_of = _numbers("sizes", sizes, _MOST).astype(np.uint64, copy=False)
    asked = {"policy": policy, "capacity": room, "seed": chance}
    text = json_text("", asked)
    return CacheRun(**json.loads(_engine.simulate_cache(text, ids, bytes_of, progress=progress)))


def lru_curve(trace: ArrayLike, *, progress: Progress | None = None) -> NDArray[np.uint64]:
    """Return the hits of LRU at every capacity, in one pass over a trace of objects all alike.

    Element `c` has the hits with room for `c` objects; the last one has room for all.

    Args:
        trace: Numbers of objects in the order of their use, from 0 and without large gaps.
        progress: Called with the accesses done and the accesses in all.

    Raises:
        ScalewrightError: The trace is wrong; says how.
    """
    import numpy as np

    need_progress(progress)
    ids = _numbers("trace", trace, 2**32 - 1).astype(np.uint32, copy=False)
    return _engine.lru_curve(ids, progress=progress)


def _whole(field: str, value: object, most: int = _MOST) -> int:
    """Return a whole number from zero to `most`.

    Raises:
        InvalidError: It is something else.
    """
    given = -1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):  # NumPy's arrays are no number
            given = value.__index__()
    if not 0 <= given <= most:
        message = f"{field}: got {value!r:.60}; allowed: a whole number from 0 to {most}"
        raise InvalidError(message)
    return given


def _numbers(field: str, values: ArrayLike, most: int) -> NDArray[Any]:
    """Return a list of whole numbers as a flat array.

    Raises:
        InvalidError: It holds something else.
    """
    import numpy as np

    message = f"{field}: got {values!r:.60}; allowed: a list of whole numbers"
    try:
        given = np.asarray(values)
    except (TypeError, ValueError) as error:  # lists of unlike lengths
        raise InvalidError(message) from error
    if given.size == 0 and given.ndim == 1:
        given = given.astype(np.uint32)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidError(message)
    if given.size and (int(given.min()) < 0 or int(given.max()) > most):
        message = f"{field}: got {values!r:.60}; allowed: whole numbers from 0 to {most}"
        raise InvalidError(message)
    return np.ascontiguousarray(given)
