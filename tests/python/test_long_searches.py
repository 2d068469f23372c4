"""Does a search that is stopped, killed or cut into pieces lose nothing, and say what it has?"""

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scalewright as sw
from long_search import FIX, long_search, program, told
from scalewright import _engine
from scalewright.planning import Job
from scalewright.searching import Question, SearchExecution, find

MODEL = sw.model("gpt2")
SYSTEM = sw.system("dgx-a100-80gb", devices=16)
TRAINING = sw.Training(global_batch=64, sequence=1024)
ODD = [7, True, b"x", object(), "", ".", "\ud800", "a\0b", [], {}, "no/folder/x", "x" * 300]

unix = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


def small(**means: Any) -> sw.Search:
    return sw.search(MODEL, SYSTEM, TRAINING, top=3, offload="never", **means)


def question(limits: str = '{"top": 3, "offload": "never"}') -> Question:
    return Job(MODEL, SYSTEM, TRAINING).question("{}", limits)


def stop_after(units: int) -> Any:
    """Progress that presses Ctrl-C once so many units are walked."""

    def progress(done: int, _: int) -> None:
        if done >= units:
            raise KeyboardInterrupt

    return progress


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    return told(long_search())


def test_pieces_give_what_the_engine_finds_in_one_go() -> None:
    job = Job(MODEL, SYSTEM, TRAINING)
    whole = json.loads(_engine.search(job.handle, "{}", '{"top": 3, "offload": "never"}'))
    pieces = find(question(), SearchExecution())
    assert {name: pieces[name] for name in whole} == whole
    assert pieces["units_walked"] == pieces["units"] > 0
    assert not pieces["stopped"]


@given(st.data())
def test_any_cut_into_units_in_any_order_finds_the_same_plans(data: st.DataObject) -> None:
    search = question().search()
    cuts = data.draw(st.lists(st.integers(0, search.units), max_size=6))
    bounds = sorted({0, *cuts, search.units})
    parts = [search.run(first, last) for first, last in pairwise(bounds)]
    merged = search.merge(data.draw(st.permutations(parts)))
    found, whole = (
        json.loads(search.report(part)) for part in (merged, search.run(0, search.units))
    )
    for name in ("best", "pareto", "plans_legal", "proven", "bound"):
        assert found[name] == whole[name], name


@unix
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_returns_the_best_so_far_with_a_bound_that_holds(
    undisturbed: dict[str, Any],
) -> None:
    pressed: list[int] = []

    def progress(done: int, total: int) -> None:
        if not pressed and done > total // 10:
            pressed.append(done)
            os.kill(os.getpid(), signal.SIGINT)

    found = long_search(progress=progress)
    best = undisturbed["best"][0]["step_time_s"]
    assert found.stopped
    assert not found.proven
    assert 0 < found.values["units_walked"] < found.values["units"]
    assert found.bound_s is not None
    assert found.bound_s <= best <= found[0].step_time_s


def test_ctrl_c_before_the_first_unit_returns_no_plan_and_a_bound() -> None:
    found = small(progress=stop_after(0))
    assert found.stopped
    assert not found.feasible
    assert not found.proven
    assert found.values["units_walked"] == 0


def pressing_while_listed(monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Press Ctrl-C so often while a space is listed."""
    made = Question.search

    def pressed(self: Question) -> Any:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return made(self)

    monkeypatch.setattr(Question, "search", pressed)


@unix
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_the_space_is_listed_returns_a_bound_and_a_file_to_go_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "search.json"
    with monkeypatch.context() as patch:
        pressing_while_listed(patch)
        stopped = small(checkpoint=file)
    assert stopped.stopped
    assert not stopped.feasible
    assert not stopped.proven
    assert stopped.values["units_walked"] == 0 < stopped.values["units"]
    whole = small()
    assert stopped.bound_s is not None
    assert stopped.bound_s <= whole[0].step_time_s
    assert told(small(checkpoint=file)) == told(whole)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@unix
@pytest.mark.usefixtures("interruptible")
def test_the_file_is_there_before_the_space_is_listed_and_a_search_goes_on_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "search.json"
    with monkeypatch.context() as patch:
        pressing_while_listed(patch, times=2)
        with pytest.raises(KeyboardInterrupt):
            small(checkpoint=file)
    assert list(tmp_path.iterdir()) == [file]
    before = file.read_bytes()
    with pytest.raises(sw.InvalidError, match=r"another search: objective: the file has 'time'"):
        small(checkpoint=file, objective="memory")
    assert file.read_bytes() == before
    assert told(small(checkpoint=file)) == told(small())


@unix
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_the_space_is_listed_again_keeps_what_was_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "search.json"
    walked = small(checkpoint=file, progress=stop_after(9))
    with monkeypatch.context() as patch:
        pressing_while_listed(patch)
        stopped = small(checkpoint=file)
    assert stopped.values["units_walked"] == walked.values["units_walked"] > 0
    assert [plan.to_dict() for plan in stopped.best] == [plan.to_dict() for plan in walked.best]
    assert told(small(checkpoint=file)) == told(small())


@unix
def test_a_handler_of_ctrl_c_that_a_program_set_itself_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        pressing_while_listed(monkeypatch)
        assert not small().stopped
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_search_that_the_engine_refuses_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(sw.ScalewrightError, match="top"):
        sw.search(MODEL, SYSTEM, TRAINING, top=-1, checkpoint=tmp_path / "search.json")
    assert list(tmp_path.iterdir()) == []


@unix
@pytest.mark.parametrize("times", [1, 2])
def test_the_command_line_names_the_file_when_ctrl_c_comes_before_anything_is_priced(
    tmp_path: Path, times: int
) -> None:
    file = tmp_path / "search.json"
    # what presses Ctrl-C is the program itself, while the space is listed
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from scalewright import cli; from scalewright.searching import Question; "
        "made = Question.search\n"
        "def pressed(self):\n"
        f"    [signal.raise_signal(signal.SIGINT) for _ in range({times})]\n"
        "    return made(self)\n"
        "Question.search = pressed\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    asked = ["plan", "--model", "gpt2", "--system", "dgx-a100-80gb", "--devices", "16"]
    asked += ["--global-batch", "64", "--sequence", "1024", "--checkpoint", str(file)]
    call = [sys.executable, "-c", code, *asked]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 130, done.stderr
    shown = " ".join((done.stdout if times == 1 else done.stderr).split())
    assert f"'{file}' holds how far the search is, the same command goes on from there" in shown
    assert ("nothing was priced until then" in shown) == (times == 1)
    assert ("scalewright: stopped" in done.stderr) == (times == 2)
    call = [sys.executable, "-m", "scalewright", *asked]
    again = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr


def test_ctrl_c_among_plans_with_offload_leaves_what_was_placed() -> None:
    model, system = sw.model("mixtral-8x7b"), sw.system("dgx-h100", devices=8)
    training = sw.Training(global_batch=64, sequence=4096)
    fix = {"tensor": 1, "pipeline": 1, "context": 1, "zero": [1, 2, 3], "expert": [2, 4, 8]}
    told_of: list[tuple[int, int]] = []

    def pressed(done: int, total: int) -> None:
        told_of.append((done, total))
        units = told_of[0][1]
        if total > units and done >= 32:
            raise KeyboardInterrupt

    asked: dict[str, Any] = {"fix": fix, "offload": "always", "front": ()}
    without = sw.search(model, system, training, fix=fix, offload="never", front=())
    found = sw.search(model, system, training, progress=pressed, **asked)
    assert found.stopped
    assert not found.proven
    assert 0 < found.values["plans_placed"] < told_of[-1][1]
    assert found.feasible
    least = found.values["untried_with_offload_bound_s"]
    assert found.bound_s == min(least, found.best[0].step_time_s)
    whole = sw.search(model, system, training, **asked)
    assert whole.proven
    assert found.bound_s <= whole.best[0].step_time_s <= found.best[0].step_time_s
    if without.feasible:
        assert found.best[0].step_time_s <= without.best[0].step_time_s


def test_ctrl_c_among_plans_with_offload_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question('{"top": 3, "offload": "always"}')
    without = find(question(), SearchExecution())

    def interrupted(self: object, part: str, *, progress: object = None) -> str:
        del self, part, progress
        raise KeyboardInterrupt

    class Interrupted:
        """The engine's search, on whose report somebody presses Ctrl-C."""

        def __init__(self, search: Any) -> None:
            self._search = search

        def __getattr__(self, name: str) -> Any:
            return getattr(self._search, name)

        report = interrupted

    made = Question.search
    monkeypatch.setattr(
        Question,
        "search",
        lambda self: Interrupted(made(self)) if "always" in self.limits else made(self),
    )
    found = find(asked, SearchExecution())
    assert found["best"] == without["best"]
    assert found["stopped"]
    assert not found["proven"]
    assert found["bound"]["step_time_s"] <= without["best"][0]["step_time_s"]


@unix
def test_the_command_line_shows_what_it_has_when_ctrl_c_comes() -> None:
    asked = ["plan", "--model", "gpt3-175b", "--system", "dgx-a100-80gb", "--devices", "4096"]
    toggles = [f"{name}={','.join(map(str, values))}" for name, values in FIX.items()]
    asked += ["--global-batch", "12288", "--sequence", "2048", "--fix", *toggles]
    # what presses Ctrl-C is the program itself, once a tenth is done
    code = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from scalewright import cli; from scalewright.cli import output; "
        "from contextlib import contextmanager\n"
        "@contextmanager\n"
        "def bar(what):\n"
        "    yield lambda done, total: done * 10 < total or os.kill(os.getpid(), signal.SIGINT)\n"
        "output.progress_bar = bar\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    call = [sys.executable, "-c", code, *asked]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 130, done.stderr
    shown = " ".join(done.stdout.split())
    assert "Stopped after " in shown
    assert "no plan of the space is faster than" in shown
    assert done.stderr == ""


@unix
@pytest.mark.slow
def test_a_search_killed_at_random_moments_ends_with_the_identical_answer(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    file = tmp_path / "search.json"
    draw = random.Random()
    call, slow = program(checkpoint=str(file)), {**os.environ, "RAYON_NUM_THREADS": "1"}
    kills, answer = 0, ""
    while not answer or kills < 2:
        if answer:
            # too quick a machine for these lives: from the start, with shorter ones
            answer = ""
            file.unlink()
        with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=slow) as run:
            try:
                # lives grow, so that a machine of any speed gets to the end
                answer, _ = run.communicate(timeout=draw.uniform(0.1, 0.8 + 0.3 * kills))
            except subprocess.TimeoutExpired:
                run.kill()
                kills += 1
    assert kills >= 2
    assert json.loads(answer) == undisturbed
    assert list(tmp_path.iterdir()) == [file], "each run cleans up after those killed before"


def test_a_stopped_search_goes_on_to_the_identical_answer(tmp_path: Path) -> None:
    whole = told(small())
    for units in (0, 1, 9, 30):
        file = tmp_path / f"{units}.json"
        for _ in range(3):
            stopped = small(checkpoint=file, progress=stop_after(units))
            assert stopped.stopped
        walked: list[int] = []
        found = small(checkpoint=file, progress=lambda done, _, seen=walked: seen.append(done))
        assert told(found) == whole
        assert walked[0] == stopped.values["units_walked"], "it goes on where it was"


def test_a_finished_search_answers_at_once(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    first = small(checkpoint=file)
    before = file.read_bytes()
    again = small(checkpoint=file, progress=stop_after(0))
    assert again.to_dict().keys() == first.to_dict().keys()
    assert told(again) == told(first)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"training": sw.Training(128, 1024)}, "job.training.global_batch: the file has 64, asked"),
        ({"model": sw.model("gpt2-xl")}, "job.model"),
        ({"system": sw.system("dgx-a100-80gb", 32)}, "job.system.devices: the file has 16, asked"),
        ({"memory_margin": 0.1}, r"job.memory_margin: the file has 0.0, asked is 0.1"),
    ],
)
def test_a_checkpoint_of_another_job_is_refused_with_what_differs(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    file = tmp_path / "search.json"
    asked = {"model": MODEL, "system": SYSTEM, "training": TRAINING}
    sw.search(**asked, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(sw.InvalidError, match=said):
        sw.search(**{**asked, **change}, checkpoint=file)
    assert file.read_bytes() == before


def test_a_checkpoint_of_another_search_is_refused_with_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    small(checkpoint=file)
    with pytest.raises(sw.InvalidError, match=r"space\.tensor: the file has 'nothing', asked is"):
        small(checkpoint=file, fix={"tensor": 2})
    with pytest.raises(
        sw.InvalidError, match=r"another search: objective: the file has 'time', asked is"
    ):
        small(checkpoint=file, objective="memory")


def test_a_checkpoint_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "search.json"
    small(checkpoint=file)
    head, _, body = file.read_text().partition("\n")
    file.write_text(f"{json.dumps({**json.loads(head), 'scalewright_checkpoint': 2})}\n{body}")
    with pytest.raises(sw.InvalidError, match="format: the file has 2, this version 1"):
        small(checkpoint=file)
    file.write_text(f"{head}\n{body}")
    monkeypatch.setattr(_engine, "version", lambda: "99.0.0")
    with pytest.raises(sw.InvalidError, match=r"engine_version: .*asked is '99\.0\.0'"):
        small(checkpoint=file)


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the file of a search holds that was stopped midway."""
    file = tmp_path_factory.mktemp("half") / "search.json"
    small(checkpoint=file, progress=stop_after(9))
    return file.read_bytes()


@given(st.data())
def test_a_broken_checkpoint_is_refused_with_the_reason(
    half_done: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = tmp_path_factory.mktemp("broken") / "search.json"
    place = data.draw(st.integers(0, len(half_done) - 2))
    cut, letter = data.draw(st.booleans()), data.draw(st.binary(min_size=1, max_size=1))
    broken = half_done[:place] if cut else half_done[:place] + letter + half_done[place + 1 :]
    file.write_bytes(broken)
    if broken == half_done:
        return
    try:
        found = small(checkpoint=file)
    except sw.InvalidError as error:
        refused = str(error)
    else:
        # a space in the file's first line changes nothing
        assert told(found) == told(small())
        return
    assert "checkpoint: " in refused
    assert "cannot be read" in refused or "another search" in refused
    assert file.read_bytes() == broken, "what cannot be used is left alone"


def test_a_part_that_the_engine_cannot_use_is_refused(tmp_path: Path, half_done: bytes) -> None:
    from hashlib import sha256

    file = tmp_path / "search.json"
    held = json.loads(half_done.partition(b"\n")[2])
    text = json.dumps({**held, "before": '{"best": 3}', "within": '{"best": 4}'})
    head = {"scalewright_checkpoint": 1, "sha256": sha256(text.encode()).hexdigest()}
    file.write_text(f"{json.dumps(head)}\n{text}\n")
    with pytest.raises(sw.InvalidError, match=r"checkpoint: .* cannot be read .*part"):
        small(checkpoint=file)


@pytest.mark.parametrize("odd", ODD, ids=lambda value: f"{value!a:.20}")
@pytest.mark.parametrize("name", ["checkpoint", "rows", "cluster", "ray_address"])
def test_an_odd_place_is_refused_by_name(
    name: str, odd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sw.InvalidError, match=f"{name}: got|{name}: '.*cannot be written"):
        small(**{name: odd})
    assert list(tmp_path.iterdir()) == []


@unix
def test_what_is_no_file_is_never_replaced() -> None:
    with pytest.raises(sw.InvalidError, match="no file"):
        small(checkpoint="/dev/null")
    assert not Path("/dev/null").is_file()


@unix
def test_a_full_disk_is_said_and_the_file_before_stays(tmp_path: Path) -> None:
    file = tmp_path / "search.json"
    small(checkpoint=file, progress=stop_after(9))
    before = file.read_bytes()
    # a limit on the size of files stands for a disk without room
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "import scalewright as sw; "
        "sw.search(sw.model('gpt2'), sw.system('dgx-a100-80gb', 16), "
        f"sw.Training(64, 1024), top=3, offload='never', checkpoint={str(file)!r})"
    )
    call = [sys.executable, "-c", code]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert "InvalidError: checkpoint: " in done.stderr
    assert "cannot be written (File too large)" in done.stderr
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("other", [{"checkpoint": "x.json"}, {"cluster": "auto"}])
def test_options_that_contradict_one_another_are_refused(other: dict[str, str]) -> None:
    with pytest.raises(sw.InvalidError, match=r"rows: got it with .*allowed: alone"):
        small(rows="x.parquet", **other)
    with pytest.raises(sw.InvalidError, match="cluster and ray_address: got both"):
        small(cluster="auto", ray_address="auto")


def test_a_job_is_its_text() -> None:
    """A search that another process makes from the text is the same one."""
    asked = question()
    again = Question(**{name: getattr(asked, name) for name in asked.__dataclass_fields__})
    assert find(again, SearchExecution())["best"] == find(asked, SearchExecution())["best"]
    assert replace(asked, memory_margin=0.5).to_dict()["memory_margin"] == 0.5
