"""Does the answer of every verb with machines name the constants that a user's files changed?"""

import json
from pathlib import Path

import pytest

from scalewright.cli import main

JOB = [
    *("--model", "gpt2", "--system", "dgx-a100-80gb", "--devices", "8"),
    *("--global-batch", "16", "--sequence", "1024"),
]
OFFLOAD = ["offload", *JOB, "--scheme", "zero-offload"]
UNLIKE = ["plan-unlike", "--model", "gpt2", "--global-batch", "16", "--sequence", "1024"]
UNLIKE += ["--top", "1", "--fix", "tensor=1", "data=4", "--group", "dgx-h100:8"]
BETWEEN = [*UNLIKE, "--group", "dgx-h100:8", "--between", "dgx-a100-80gb"]
VERBS = {
    "plan": ["plan", *JOB],
    "plan-unlike": [*UNLIKE, "--group", "dgx-a100-80gb:8", "--between", "25 GB/s, 10 us"],
    "plan-unlike by the link": BETWEEN,
    "estimate": ["estimate", *JOB],
    "place": ["place", *JOB],
    "place what does not fit": ["place", *JOB, "--tier", "l2"],
    "compare": ["compare", "zero=1", "zero=2", *JOB],
    "why-not": ["why-not", "zero=3", *JOB],
    "sensitivity": ["sensitivity", "zero=1", *JOB],
    "codesign": ["codesign", *JOB, "--counts", "8,16"],
    "collective": ["collective", "all_reduce", "--system", "dgx-a100-80gb", "--sizes", "1M,1G"],
    "rematerialise": ["rematerialise", *JOB],
    "offload": OFFLOAD,
    "offload the largest": [*OFFLOAD, "--largest", "layers"],
    "serve-blocks": ["serve-blocks", "gpt2", "dgx-a100-80gb"],
}
CHANGED = "system.levels.hdr-infiniband.latency"


@pytest.fixture
def mine(tmp_path: Path) -> str:
    file = tmp_path / "mine.toml"
    level = '[[levels]]\nname = "hdr-infiniband"\nlatency = "3 us"\n'
    file.write_text(f'kind = "system"\nbase = "dgx-a100-80gb"\n{level}')
    return str(file)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_names_the_constants_that_files_changed(
    verb: str, mine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = VERBS[verb]
    code = main([*asked, "--catalog", mine])
    assert code == (3 if "not fit" in verb else 0)
    shown = " ".join(capsys.readouterr().out.split())
    assert "overridden" in shown
    assert CHANGED in shown
    assert main([*asked, "--json", "--catalog", mine]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["overridden_constants"] == [CHANGED]
    assert main([*asked, "--json"]) == code
    usual = json.loads(capsys.readouterr().out)
    assert usual["overridden_constants"] == []
    assert usual["catalog_hash"] != told["catalog_hash"]
    monkeypatch.setenv("SCALEWRIGHT_CATALOG", mine)
    assert main([*asked, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["overridden_constants"] == [CHANGED]


def test_a_link_names_only_what_changed_of_its_own_level(
    mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = [*BETWEEN[:-1], "dgx-a100-80gb:nvswitch", "--json", "--catalog", mine]
    assert main(inner) == 0
    assert json.loads(capsys.readouterr().out)["overridden_constants"] == []


def test_constants_of_several_groups_are_named_once(
    mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ["--group", "dgx-a100-80gb:8", "--between", "dgx-a100-80gb"]
    assert main([*UNLIKE, *groups, "--json", "--catalog", mine]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["overridden_constants"] == [CHANGED]
    assert [job["overridden_constants"] for job in told["group_jobs"]] == [[], [CHANGED]]
