"""Does hostile input end in a line that says what to mend, and odd surroundings in an answer?"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import scalewright as sw
from scalewright.catalog import names
from scalewright.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINES = ["--system", "dgx-a100-80gb", "--devices", "16"]
BATCH = ["--global-batch", "64", "--sequence", "1024"]
JOB = ["--model", "gpt2", *MACHINES, *BATCH]
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "vocab_size": 32000,
}


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "scalewright", *arguments]
    surroundings = {**os.environ, **environment}
    return subprocess.run(call, capture_output=True, text=True, env=surroundings, check=False)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a = " + b"[" * 5000 + b"]" * 5000, "not valid TOML"),
        (b"a = " + b"9" * 5000, "not valid TOML"),
        ('base = "dgx-a100-80gb"'.encode("utf-16"), "not valid TOML"),
        (b"", "base: got None"),
        (b'base = "dgx-a100-81gb"', "nearest: dgx-a100-80gb"),
        (b'base = "dgx-a100-80gb"\nlevels = 1979-05-27', "levels: got 1979-05-27"),
        (b'base = "dgx-a100-80gb"\ncolour = "red"', "colour"),
        (b'base = "dgx-a100-80gb"\ndevices_per_node = 0', "devices_per_node: got 0"),
        (
            b'base = "dgx-a100-80gb"\n[[levels]]\nname = "hdr-infiniband"\nbandwidth = "0 GB/s"',
            "levels.hdr-infiniband.bandwidth: got 0",
        ),
        (b'base = "dgx-a100-80gb"\nlevels = []', "levels: got 0; allowed: 1 to 4"),
    ],
)
def test_a_wrong_system_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_bytes(content)
    with pytest.raises(sw.ScalewrightError) as error:
        sw.system(str(file), 16)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "not valid JSON"),
        (json.dumps(LLAMA).encode("utf-16"), "not valid JSON"),
        (json.dumps(LLAMA | {"vocab_size": float("nan")}).encode(), "got NaN"),
        (json.dumps(LLAMA | {"vocab_size": 10**30}).encode(), "vocab_size: got 1000"),
        (json.dumps(LLAMA | {"vocab_size": 32000.0}).encode(), "vocab_size: got 32000.0"),
        (json.dumps(LLAMA | {"num_attention_heads": 7}).encode(), "divisor of the hidden width"),
        (json.dumps({"text_config": [LLAMA]}).encode(), "text_config: got"),
        (json.dumps(LLAMA | {"model_type": "lama"}).encode(), "nearest: llama"),
        (json.dumps(LLAMA | {"hidden_size": 0}).encode(), "hidden_size: got 0"),
    ],
)
def test_a_wrong_config_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    for source in (file, tmp_path):
        with pytest.raises(sw.ScalewrightError) as error:
            sw.model(source)
        assert message in str(error.value)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "config.json").write_bytes(mark + json.dumps(LLAMA).encode())
    (tmp_path / "mine.toml").write_bytes(mark + b'base = "dgx-a100-80gb"')
    (tmp_path / "plan.json").write_bytes(mark + b'{"tensor": 2}')
    model = sw.model(tmp_path / "config.json")
    system = sw.system(tmp_path / "mine.toml", 16)
    priced = sw.estimate(model, system, tmp_path / "plan.json", sw.Training(64, 1024))
    assert priced.plan.tensor == 2


def test_a_directory_without_a_config_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(sw.InvalidError, match=r"config\.json: cannot be read"):
        sw.model(tmp_path)


def test_a_changed_file_changes_the_hash_of_the_catalog(tmp_path: Path) -> None:
    file, seen = tmp_path / "mine.toml", set[object]()
    for latency in ("3 us", "4 us"):
        file.write_text(
            'kind = "system"\nbase = "dgx-a100-80gb"\n'
            f'[[levels]]\nname = "hdr-infiniband"\nlatency = "{latency}"\n'
        )
        for system in (
            sw.system(file, 16),
            sw.system("dgx-a100-80gb", 16, overrides=[file]),
        ):
            stamp = sw.Job(sw.model("gpt2"), system, sw.Training(64, 1024)).stamp()
            assert stamp["overridden_constants"] == ["system.levels.hdr-infiniband.latency"]
            seen.add(stamp["catalog_hash"])
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", *JOB, "--run-tokens", "nan"], "--run-tokens: got nan"),
        (["plan", *JOB, "--precision", "fp8"], "got fp8; allowed: fp32, tf32, fp16, bf16, which"),
        (["estimate", *JOB, "--plan", " "], "plan: got nothing"),
        (["compare", "", "tensor=2", *JOB], "plan: got nothing"),
        (["plan", "--model", "/etc/x", *MACHINES, *BATCH], "`scalewright catalog models` lists"),
        (["plan", "--model", "gpt2", "--system", "", "--devices", "8", *BATCH], "systems` lists"),
        (["reproduce", "--rows", os.devnull], "no regular file"),
    ],
)
def test_the_command_line_says_what_to_mend(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in refusal(capsys, *arguments)


@pytest.mark.parametrize("devices", [1, 7, 1009, 65536])
def test_any_number_of_devices_gets_a_plan_or_a_verdict(
    capsys: pytest.CaptureFixture[str], devices: int
) -> None:
    arguments = ["plan", "--model", "gpt2", "--system", "dgx-a100-80gb", *BATCH, "--json"]
    code = main([*arguments, "--devices", str(devices)])
    found = json.loads(capsys.readouterr().out)
    assert code == (0 if found["best"] else 3)
    if code:
        assert found["infeasible"]["verdict"] in {"no plan is legal", "no plan fits"}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's own redirections")
def test_an_output_that_takes_nothing_is_said_in_a_line() -> None:
    call = f'"{sys.executable}" -m scalewright estimate {" ".join(JOB)}'
    for redirection, code in ((">&-", 2), ("| head -1", 0)):
        shell = ["bash", "-c", f"{call} {redirection}"]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "surroundings",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "TERM": "dumb"},
        {"PYTHONIOENCODING": "ascii"},
        {"COLUMNS": "abc"},
        {"HOME": "/nonexistent"},
    ],
    ids=["plain", "ascii", "columns", "home"],
)
def test_any_surroundings_get_the_answer(surroundings: dict[str, str]) -> None:
    for arguments in (["estimate", *JOB], ["catalog", "dgx-a100-80gb"], ["catalog"]):
        done = command(*arguments, **surroundings)
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert done.stderr == ""


def test_lines_are_no_wider_than_asked() -> None:
    done = command("estimate", *JOB, "--explain", COLUMNS="80")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_very_many_micro_batches_are_priced_at_once() -> None:
    job = sw.model("gpt2"), sw.system("dgx-a100-80gb", 16)
    plan = "pipeline=4,interleave=3,data=4"
    quick = sw.estimate(*job, plan, sw.Training(2**32, 128))
    short = sw.estimate(*job, plan, sw.Training(2**16, 128))
    assert quick.step_time_s == pytest.approx(2**16 * short.step_time_s, rel=0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_ctrl_c_ends_long_work_in_a_line() -> None:
    # where the tests run in the background, what they start inherits that Ctrl-C is ignored
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from scalewright.cli import main; sys.exit(main(['reproduce']))"
    )
    call = [sys.executable, "-c", code]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        time.sleep(2)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert (run.returncode, said) == (130, "scalewright: stopped\n")


ODD = [
    *(None, 7, -1, 1.5, True, float("nan"), 10**30, b"x", object(), len),
    *("", "x", "\ud800", "a\0b", [], ["a"], (), {}, {1: 2}, {"a": object()}, set[object]()),
    *([[1, 2], [3]], np.array([]), np.array([float("nan")])),
]


@pytest.mark.parametrize("odd", ODD, ids=lambda value: f"{value!a:.20}")
def test_an_argument_of_any_kind_gets_an_answer_or_a_refusal(odd: Any) -> None:
    model, system, training = sw.model("gpt2"), sw.system("dgx-a100-80gb", 16), sw.Training(64, 512)
    calls: list[Callable[[], object]] = [
        lambda: sw.model(odd),
        lambda: sw.model("gpt2", overrides=odd),
        lambda: sw.system(odd, 16),
        lambda: sw.system("dgx-a100-80gb", odd),
        lambda: sw.estimate(odd, system, "tensor=2", training),
        lambda: sw.estimate(model, odd, "tensor=2", training),
        lambda: sw.estimate(model, system, odd, training),
        lambda: sw.estimate(model, system, "tensor=2", odd),
        lambda: sw.estimate(model, system, "tensor=2", training, memory_margin=odd),
        lambda: sw.search(model, system, training, fix=odd, top=1),
        lambda: sw.search(model, system, training, fix={"tensor": odd}, top=1),
        lambda: sw.search(model, system, training, top=odd),
        lambda: sw.search(model, system, training, objective=odd),
        lambda: sw.compare(model, system, odd, training),
        lambda: sw.estimate_many(model, system, odd, training),
        lambda: sw.estimate_many(model, system, {"tensor": odd}, training),
        lambda: sw.explain(odd),
        lambda: sw.collective(odd, [1e6], system),
        lambda: sw.collective("all_reduce", odd, system).to_dict(),
        lambda: sw.collective("all_reduce", 1e6, odd),
        lambda: sw.collective("all_reduce", 1e6, system, odd),
        lambda: sw.collective("all_reduce", 1e6, system, 2, stride=odd),
        lambda: sw.collective("all_reduce", 1e6, system, 2, algorithms=odd),
        lambda: sw.collective("all_reduce", 1e6, system, 2, forbid=odd),
        lambda: sw.collective("all_reduce", 1e6, system, 2, protocol=odd),
        lambda: sw.simulate_collective(odd, 1e6, system, algorithm="ring"),
        lambda: sw.simulate_collective("all_reduce", 1e6, system, algorithm=odd),
        lambda: sw.simulate_msccl(odd, 1e6, system),
        lambda: sw.compressed_all_reduce(odd, 1e6, system),
        lambda: sw.averaging(odd, 1e6, system),
        lambda: sw.collective_on_links(odd, 1e6, [[1.0, 1.0], [1.0, 1.0]]),
        lambda: sw.cache_hits(2, [1.0, 2.0], objects=odd),
        lambda: sw.lru_curve(odd),
        lambda: sw.simulate_cache(odd, 1),
        lambda: sw.simulate_cache([1, 2], odd),
        lambda: sw.simulate_cache([1, 2], 1, sizes=odd),
        lambda: sw.partition([1.0, 1.0], [1.0, 1.0], 4, kinds=odd),
        lambda: sw.partition([1.0, 1.0], [1.0, 1.0], 4, devices=2, kinds=odd),
        lambda: sw.place(model, system, "tensor=2", training, objective=odd),
        lambda: sw.place(model, system, "tensor=2", training, whole=odd),
    ]
    for call in calls:
        try:
            call()
        except sw.ScalewrightError as error:
            assert "internal error" not in str(error)  # noqa: PT017
            assert str(error).encode()  # noqa: PT017


@pytest.mark.parametrize("name", names("system"))
def test_every_system_gets_a_plan_or_a_verdict(name: str) -> None:
    model, training = sw.model("gpt2"), sw.Training(64, 1024)
    for devices in (1, 8):
        try:
            found = sw.search(model, sw.system(name, devices), training, top=1)
        except sw.ScalewrightError as error:
            assert "allowed" in str(error)  # noqa: PT017
        else:
            assert found.feasible or found.values["infeasible"]["verdict"]


@pytest.mark.parametrize("name", names("model"))
def test_every_model_is_estimated(name: str) -> None:
    model, system = sw.model(name), sw.system("dgx-h100", 8)
    priced = sw.estimate(model, system, "zero=3", sw.Training(64, 512))
    assert priced.step_time_s > 0
    assert all(term["inputs"] for term in sw.explain(priced))
