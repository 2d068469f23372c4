"""How do all plans of a space that are legal and fit come into a file?"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

from scalewright.config import FIELDS
from scalewright.errors import InvalidError
from scalewright.searching.files import clear_leftovers, need_room, place_of, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scalewright import _engine
    from scalewright.searching.walking import Progress

ENDINGS = (".parquet", ".arrow")
_UNEVEN = 2**32 - 1
"""What stands for slices that no count tells."""
_ROWS = 1 << 17
"""Rows that are held before they are written: some 15 MiB."""


class Table:
    """A file of plans, a row each: the plan's fields, `step_time_s` and `peak_memory_bytes`."""

    def __init__(self, path: object) -> None:
        """Refuse what cannot become such a file, before any work is done.

        Raises:
            InvalidError: The ending is unknown, `pyarrow` is not installed, or the file cannot be
                written.
        """
        self._place = _named(path)
        self._arrow = _arrow()
        clear_leftovers(self._place)
        need_room("rows", self._place)

    def write(self, search: _engine.Search, progress: Progress | None) -> int:
        """Write every plan that is legal and fits, unit by unit, and return how many there are.

        The file appears when all of it is on disk; one that was there stays until then.

        Raises:
            InvalidError: It cannot be written.
        """
        schema = self._schema(search)
        count = 0
        with replacing("rows", self._place) as beside, self._writer(beside, schema) as writer:
            for batch in self._batches(search, schema, progress):
                writer.write_table(batch)
                count += batch.num_rows
        return count

    def _schema(self, search: _engine.Search) -> Any:  # noqa: ANN401 - a package without types
        arrow = self._arrow
        names = arrow.dictionary(arrow.int8(), arrow.string())
        kinds = dict.fromkeys(search.names, names)
        kinds |= {name: arrow.bool_() for name, kind in FIELDS.items() if kind == "bool"}
        columns = [(name, kinds.get(name, arrow.uint32())) for name in search.fields]
        prices = [("step_time_s", arrow.float64()), ("peak_memory_bytes", arrow.float64())]
        return arrow.schema([*columns, *prices])

    def _writer(self, beside: Path, schema: Any) -> Any:  # noqa: ANN401 - as above
        if self._place.suffix == ".arrow":
            return self._arrow.ipc.new_file(str(beside), schema)
        return import_module("pyarrow.parquet").ParquetWriter(str(beside), schema)

    def _batches(
        self,
        search: _engine.Search,
        schema: Any,  # noqa: ANN401 - as above
        progress: Progress | None,
    ) -> Iterator[Any]:
        """Yield tables of some rows each, so that memory stays bounded and row groups large."""
        held: list[Any] = []
        for unit, batch in enumerate(self._in_order(search, schema)):
            held.append(batch)
            if sum(table.num_rows for table in held) >= _ROWS:
                yield self._arrow.concat_tables(held).combine_chunks()
                held = []
            if progress is not None:
                progress(unit + 1, search.units)
        if held:
            yield self._arrow.concat_tables(held).combine_chunks()

    def _in_order(self, search: _engine.Search, schema: Any) -> Iterator[Any]:  # noqa: ANN401
        """Yield the plans of each unit; all cores work, a few units ahead."""
        cores = os.cpu_count() or 1
        ahead: deque[Future[Any]] = deque()
        pool = ThreadPoolExecutor(cores)
        try:
            for unit in range(search.units):
                ahead.append(pool.submit(self._batch, search, schema, unit))
                if len(ahead) > 2 * cores:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _batch(self, search: _engine.Search, schema: Any, unit: int) -> Any:  # noqa: ANN401
        """Return the plans of a unit."""
        arrow = self._arrow
        plans, times, memories = search.rows(unit)
        names, columns = search.names, list[Any]()
        for place, name in enumerate(search.fields):
            values = plans[:, place]
            if FIELDS.get(name) == "bool":
                columns.append(arrow.array(values != 0))
            elif name in names:
                unnamed = values >= len(names[name])
                codes = arrow.array(values.astype("int8"), mask=unnamed)
                columns.append(arrow.DictionaryArray.from_arrays(codes, names[name]))
            elif name == "token_slices":
                columns.append(arrow.array(values, mask=values == _UNEVEN))
            else:
                columns.append(arrow.array(values))
        prices = [arrow.array(times), arrow.array(memories)]
        return arrow.Table.from_arrays([*columns, *prices], schema=schema)


def _named(path: object) -> Path:
    place = place_of("rows", path)
    if place.suffix not in ENDINGS:
        message = (
            f"rows: got {place.name!r:.60}; allowed: a name that ends in {' or '.join(ENDINGS)}"
        )
        raise InvalidError(message)
    return place


def _arrow() -> Any:  # noqa: ANN401 - a package without types
    try:
        return import_module("pyarrow")
    except ImportError as error:
        message = (
            "rows: pyarrow is not installed; "
            "allowed: with the extra `arrow`, as pip install 'scalewright[arrow]'"
        )
        raise InvalidError(message) from error
