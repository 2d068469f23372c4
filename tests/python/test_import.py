"""Is `import scalewright` quick, lazy and complete?"""

import inspect
import subprocess
import sys
from types import FunctionType

import pytest

import scalewright

NO_ARGUMENTS = {"schedules", "version"}


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


def test_every_public_call_says_its_arguments_and_what_it_raises() -> None:
    for name in scalewright.__all__:
        of = getattr(scalewright, name)
        if isinstance(of, FunctionType) and name not in NO_ARGUMENTS:
            told = inspect.getdoc(of) or ""
            assert "Raises:" in told, name
            listed = told.partition("Args:")[2]
            # what keywords a call passes on stands beside what they belong to
            named = [p.name for p in inspect.signature(of).parameters.values() if p.kind < 4]
            missing = [each for each in named if f"\n    {each}: " not in listed]
            assert not missing, (name, missing)


def test_names_of_which_docstrings_speak_are_public() -> None:
    assert "granular" in scalewright.SCHEMES
    assert "watts" in scalewright.MEASURES
    assert "planned" in scalewright.FATES
    assert issubclass(scalewright.NoPlanError, scalewright.ScalewrightError)
    line = scalewright.collective("all_reduce", 1e6, "dgx-h100", 8).lines()[0]
    assert isinstance(line, scalewright.Line)


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        scalewright.nothing  # noqa: B018


def test_every_field_of_a_public_class_is_told_where_help_shows_it() -> None:
    for name in scalewright.__all__:
        of = getattr(scalewright, name)
        fields = [*getattr(of, "__dataclass_fields__", ()), *getattr(of, "_fields", ())]
        told = inspect.getdoc(of) or ""
        missing = [f for f in fields if f[0] != "_" and f"\n    {f}: " not in told]
        assert not missing, (name, missing)
