"""How does a file come to hold all of what is written, or stay as it was?"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scalewright.config import need
from scalewright.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Generator


def place_of(field: str, path: object) -> Path:
    """Return the file that an argument means, links followed.

    Raises:
        InvalidError: It is no path, or what is there is no file: a folder, a device, a pipe.
    """
    need(field, path, (str, os.PathLike), "the path of a file")
    try:
        place = Path(os.fsdecode(path)).resolve()  # pyright: ignore[reportArgumentType] -- `need`
        free = place.is_file() or not place.exists()
    except (OSError, ValueError, RuntimeError) as error:
        message = f"{field}: got {path!r:.60} ({error}); allowed: the path of a file"
        raise InvalidError(message) from error
    if not free:
        message = f"{field}: got {str(place)!r}, which is no file; allowed: the path of a file"
        raise InvalidError(message)
    return place


@contextmanager
def replacing(field: str, place: Path) -> Generator[Path]:
    """Yield a file beside `place` to write to; it takes that place once all of it is on disk.

    Whatever stops the writing, `place` holds what it held before, and nothing is left beside it.

    Raises:
        InvalidError: The file cannot be written: no folder, no permission, no space.
    """
    with _beside(field, place) as beside:
        yield beside
        _to_disk(beside)
        beside.replace(place)
        _to_disk(place.parent)


def need_room(field: str, place: Path) -> None:
    """Refuse a place where no file can be written, before there is anything to write.

    Raises:
        InvalidError: There is no folder, no permission or no space.
    """
    with _beside(field, place) as beside:
        beside.touch()


@contextmanager
def _beside(field: str, place: Path) -> Generator[Path]:
    """Yield a name beside `place`, under which nothing is left."""
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        yield beside
    except OSError as error:
        message = (
            f"{field}: '{place}' cannot be written ({error.strerror or error}); "
            "allowed: a file in a folder that exists, with permission and space"
        )
        raise InvalidError(message) from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def clear_leftovers(place: Path) -> None:
    """Remove what writers of `place` that were killed left beside it."""
    with suppress(OSError):
        for beside in place.parent.glob(f".{_literal(place.name)}.*.part"):
            beside.unlink(missing_ok=True)


def _literal(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "[?*" else letter for letter in name)


def _to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, would survive a loss of power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
