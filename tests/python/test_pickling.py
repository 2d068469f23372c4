"""Do jobs and answers go to other processes and come back the same?"""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING

import pytest

import scalewright as sw

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = sw.model("gpt3-1.3b")
SYSTEM = sw.system("dgx-a100-80gb", 8)
TRAINING = sw.Training(global_batch=16, sequence=2048)
PLAN = sw.Plan(data=8)


def _estimated(model: sw.Model) -> sw.Estimate:
    return sw.estimate(model, SYSTEM, PLAN, TRAINING)


def _pickled(one: object) -> object:
    return pickle.loads(pickle.dumps(one))


def test_a_model_goes_to_another_process_and_its_estimate_comes_back():
    own = _estimated(MODEL)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        came = pool.submit(_estimated, MODEL).result(timeout=120)
    assert came.values == own.values
    assert came.job.to_dict() == own.job.to_dict()


@pytest.mark.parametrize("again", [copy.deepcopy, _pickled])
def test_copies_of_answers_go_on_answering(again: Callable[[object], object]):
    found = sw.search(MODEL, SYSTEM, TRAINING, fix={"data": 8})
    copied = again(found)
    assert isinstance(copied, sw.Search)
    assert copied.values == found.values
    assert copied.best[0].step_time_s == found.best[0].step_time_s
    assert copied.job.model.parameters() == MODEL.parameters()
    compared = sw.compare(MODEL, SYSTEM, (PLAN, found.best[0].plan), TRAINING)
    other = again(compared)
    assert isinstance(other, sw.Comparison)
    assert other.terms() == compared.terms()


@pytest.mark.parametrize("again", [copy.deepcopy, _pickled])
def test_copies_of_collectives_compute_what_is_asked_for_later(
    again: Callable[[object], object],
):
    summed = sw.collective("all_reduce", [1e6, 1e9], SYSTEM)
    copied = again(summed)
    assert isinstance(copied, sw.Collective)
    assert copied.time_s.tolist() == summed.time_s.tolist()
    assert copied.lower_bound_s.tolist() == summed.lower_bound_s.tolist()
