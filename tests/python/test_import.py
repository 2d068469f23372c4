"""Is `import scalewright` quick, lazy and complete?"""

import subprocess
import sys

import pytest

import scalewright


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("heavy", ["numpy", "rich", "scalewright._engine"])
def test_import_leaves_the_heavy_modules_alone(heavy: str) -> None:
    assert run(f"import sys, scalewright; print({heavy!r} in sys.modules)") == "False\n"


def test_every_public_name_can_be_loaded() -> None:
    for name in scalewright.__all__:
        assert getattr(scalewright, name) is not None
    assert dir(scalewright) == sorted(scalewright.__all__)


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        scalewright.nothing  # noqa: B018
