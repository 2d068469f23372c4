"""Do the uses of caches hold their laws from Python?"""

from typing import Any

import pytest

import scalewright as sw

NODE = {"copy_bytes_per_s": 1e12}
EXPERT: dict[str, Any] = {"parameters": 7e9, "input_tokens": 512, "output_tokens": 20}
MIXTURE: dict[str, Any] = {
    "layers": 12,
    "experts": 512,
    "top_k": 2,
    "hidden": 1024,
    "ffn": 4096,
    "capacity": 0.05,
    "tokens": 64,
    "exponent": 1.0,
}
LEVELS: list[dict[str, Any]] = [
    {"name": "hbm", "capacity_bytes": 1e9, "bytes_per_s": 1e12},
    {"name": "ddr", "capacity_bytes": 1e10, "bytes_per_s": 1e10},
    {"name": "ssd", "capacity_bytes": 1e12, "bytes_per_s": 1e9, "latency_s": 1e-4, "in_flight": 64},
]


def switching(experts: int, **of: Any) -> sw.ModelSwitching:
    return sw.model_switching(
        sw.system("sn40l-node", 8), experts, EXPERT, **{"machine": NODE, **of}
    )


def timed(**of: Any) -> sw.CacheTime:
    asked: dict[str, Any] = {
        "objects": 10**9,
        "object_bytes": 256.0,
        "accesses": 1e6,
        "popularity": 1.0,
        "levels": LEVELS,
        **of,
    }
    return sw.cache_time(**asked)


def buffers(**of: Any) -> sw.ExpertBuffering:
    return sw.expert_buffering(sw.system("dgx-1-v100-32gb", 32), **{**MIXTURE, **of})


def test_more_experts_miss_more_until_they_do_not_fit() -> None:
    few, many, most = switching(20), switching(150), switching(5000)
    assert few.hit_rate == 1.0
    assert few.copy_s == 0.0
    assert many.total_s is not None
    assert few.total_s is not None
    assert many.total_s > few.total_s
    assert not most.fits
    assert most.total_s is None
    assert most.nodes == -(-5000 // most.node_experts)
    assert few.switch_s == pytest.approx(14e9 / 1e12)


def test_a_batch_adds_up() -> None:
    found = switching(150, prompts=8, router={"parameters": 7e9, "input_tokens": 512})
    assert found.router_s is not None
    assert found.copy_s is not None
    assert found.expert_s is not None
    assert found.hit_rate is not None
    assert found.copy_s == pytest.approx(8 * (1 - found.hit_rate) * found.switch_s)
    assert found.total_s == pytest.approx(found.router_s + found.copy_s + 8 * found.expert_s)


def test_popular_experts_stay_near() -> None:
    skewed, alike = switching(150, popularity=1.0), switching(150)
    assert skewed.hit_rate is not None
    assert alike.hit_rate is not None
    assert skewed.hit_rate > alike.hit_rate
    assert alike.hit_rate == pytest.approx(alike.near_experts / 150)


def test_far_memory_that_is_not_inclusive_holds_more() -> None:
    own = switching(150, inclusive=False)
    assert own.node_experts == switching(150).node_experts + own.near_experts


def test_fusion_takes_launches_and_traffic_away() -> None:
    shape = {"layers": 32, "hidden": 4096, "ffn": 11008, "heads": 32}
    times = [
        sw.model_switching(
            sw.system("sn40l-node", 8),
            1,
            {**EXPERT, **({"decoder": {**shape, "fused": fused}} if fused is not None else {})},
        ).expert_s
        for fused in (False, True, None)
    ]
    assert times[0] > times[1] > times[2]


def test_levels_share_what_is_asked_for() -> None:
    found = timed()
    assert found.fits
    assert sum(level.share for level in found.levels) == pytest.approx(1.0)
    assert found.levels[-1].hit_rate == 1.0
    assert found.time_s == max(level.time_s for level in found.levels)
    assert found.slowest == "ssd"
    after = timed(overlapped=False)
    assert after.time_s == pytest.approx(sum(level.time_s for level in found.levels))
    # what a level sends on comes in at the nearer one
    near, far = found.levels[:2]
    assert near.written_bytes == pytest.approx(far.read_bytes)


def test_what_is_written_goes_back() -> None:
    read, trained = timed(), timed(written_share=1.0)
    assert read.levels[2].written_bytes == 0.0
    assert trained.levels[2].written_bytes == pytest.approx(trained.levels[2].read_bytes)
    assert trained.time_s is not None
    assert read.time_s is not None
    assert trained.time_s > read.time_s


def test_too_small_a_last_level_has_no_times() -> None:
    found = timed(levels=LEVELS[:2])
    assert not found.fits
    assert found.time_s is None
    assert found.levels == ()


def test_tables_take_the_bytes_of_their_rows() -> None:
    asked: dict[str, Any] = {
        "parameters": 1e12,
        "width": 128,
        "samples": 65536,
        "lookups_per_sample": 100.0,
        "exponent": 1.0,
    }
    zionex = sw.system("zionex", 128)
    read = sw.embedding_cache(zionex, **asked)
    trained = sw.embedding_cache(zionex, optimizer="row_wise_adagrad", **asked)
    assert (read.row_bytes, trained.row_bytes) == (256.0, 260.0)
    assert read.rows == trained.rows == 7812500000
    assert read.samples_per_s is not None
    assert trained.samples_per_s is not None
    assert trained.samples_per_s < read.samples_per_s
    huge = {**asked, "parameters": 1e14}
    assert not sw.embedding_cache(zionex, **huge).fits
    flash = {"capacity_bytes": 1e16, "bytes_per_s": 1e11, "latency_s": 1e-4, "in_flight": 1e4}
    assert sw.embedding_cache(zionex, storage=flash, **huge).slowest == "storage"


def test_buffers_trade_memory_for_copies() -> None:
    sizes = [buffers(buffered=held) for held in (4, 8, 12, 16)]
    assert [found.hit_rate for found in sizes] == sorted(found.hit_rate for found in sizes)
    assert [found.saved for found in sizes] == sorted((f.saved for f in sizes), reverse=True)
    assert sizes[-1].saved == 1.0
    assert sizes[-1].copy_s == 0.0
    for found in sizes:
        assert found.least_copy_s <= found.copy_s
    # rounds in a fixed order: what came in last goes first
    busy = {"tokens": 4096, "buffered": 10}
    assert buffers(**busy).copy_s < buffers(**busy, policy="lru").copy_s


def test_static_gating_works_on_slots_that_nobody_uses() -> None:
    found = buffers(tokens=8192)
    assert found.fixed.slots == pytest.approx(512 * 0.05 * 8192)
    assert found.dynamic.slots == 2 * 8192
    assert found.speedup == found.fixed.batch_s / found.dynamic.batch_s > 1.0
    assert found.fixed.activation_bytes > found.dynamic.activation_bytes


def test_neurons_that_repeat_are_not_copied() -> None:
    asked: dict[str, Any] = {
        "layers": 80,
        "ffn_parameters": 56e9,
        "other_parameters": 10e9,
        "storage_bytes": 1e12,
        "storage_bytes_per_s": 3.5e9,
    }
    pc = sw.system("pc-rtx-3090", 1)
    whole = sw.neuron_cache(pc, **asked)
    some = sw.neuron_cache(pc, active_share=0.05, repeated_share=0.8, **asked)
    assert whole.hit_rate == 0.0
    assert some.hit_rate == pytest.approx(0.8 * min(1.0, (24 * 2**30 - 20e9) / (56e9 * 2 * 0.05)))
    assert some.copy_s < whole.copy_s
    assert some.storage_s == whole.storage_s > 0.0
    assert not whole.fits_far
    assert whole.token_s == max(whole.near_s, whole.copy_s, whole.storage_s)
    none = sw.neuron_cache(pc, **{**asked, "storage_bytes": 0.0})
    assert not none.fits
    assert none.tokens_per_s is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: switching(0), "experts: got 0"),
        (lambda: switching(3, popularity=[1.0, 2.0]), "popularity: got 2"),
        (lambda: switching(3, policy="belady"), "policy: got belady"),
        (lambda: switching(3, machine={"near": 1.0}), "machine.near: unknown name 'near'"),
        (lambda: switching(3, machine={"near_bytes": 0.0}), "machine.near_bytes: got 0"),
        (lambda: switching(3, router=1), "router: got 1"),
        (lambda: buffers(experts=500), "experts: got 500; allowed: a multiple of the 32 devices"),
        (lambda: buffers(top_k=513), "top_k: got 513"),
        (lambda: buffers(capacity=0.0), "capacity: got 0"),
        (lambda: timed(levels=[]), "levels: got 0"),
        (lambda: timed(levels=LEVELS[::-1]), "levels[1].capacity_bytes: got 10000000000"),
        (lambda: timed(written_share=2.0), "written_share: got 2"),
        (lambda: timed(accesses=0.0), "accesses: got 0"),
        (lambda: timed(objects=None), "objects: got nothing"),
        (lambda: sw.model_switching("sn40l-node", 1, EXPERT), "system: got 'sn40l-node'"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_said(call: Any, said: str) -> None:
    with pytest.raises(sw.ScalewrightError) as caught:
        call()
    assert said in str(caught.value)
