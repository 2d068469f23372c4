"""Can a file be written where an answer is to go?"""

from __future__ import annotations

import os
from pathlib import Path

from scalewright.errors import InvalidError


def check_target(name: str, path: str | Path, endings: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written, before anything is computed.

    Args:
        name: What the user calls it.
        path: The file.
        endings: How its name may end.

    Raises:
        InvalidError: Its name ends otherwise, it is a folder, its folder is not there, or it may
            not be written.
    """
    file = Path(path)
    if file.suffix.casefold() not in endings:
        message = f"{name}: got {str(path)!r:.60}; allowed: a file that ends with "
        raise InvalidError(message + ", ".join(endings))
    told = None
    if file.is_dir():
        told = "it is a folder"
    elif not file.parent.is_dir():
        told = f"there is no folder {file.parent}"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        told = "permission denied"
    if told is not None:
        message = f"{name}: {path}: cannot be written: {told}"
        raise InvalidError(message)
