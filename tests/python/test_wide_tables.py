"""Are tables read as papers print them, with a column for each metric?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewright import reproductions
from scalewright.errors import InvalidError
from scalewright.reproductions.columns import meanings
from scalewright.reproductions.reading import read_rows
from scalewright.reproductions.wide import counted, counted_in, figure_columns, figures

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "Model,# GPUs,Seq Len,GBS,MBS,TP,PP,Precision,Activation Checkpointing,GPU"
RUN = "Llama 2 7B,16,4K,64,1,2,1,BF16,w/o,H100"


def priced(folder: Path, head: str, *lines: str) -> list[dict[str, Any]]:
    """Return what a table comes to."""
    file = folder / "table.csv"
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return reproductions.run(rows_path=file)["rows"]


def test_each_metric_of_a_line_is_a_figure_of_one_run(tmp_path: Path) -> None:
    head = f"{HEAD},Tokens/sec/GPU,MFU (%),Peak Memory (GB),Loss"
    found = priced(tmp_path, head, f'{RUN},"9,000",41.5%,61.2,2.1')
    assert [row["kind"] for row in found] == ["rate", "rate", "memory"]
    assert [row["published"] for row in found] == [9000.0, 41.5, 61.2]
    assert len({row["run"] for row in found}) == 1
    assert {row["line"] for row in found} == {2}
    assert {row["system"] for row in found} == {"dgx-h100"}
    long = priced(
        tmp_path,
        f"{HEAD},metric,value,unit",
        f"{RUN},tokens_per_s_per_gpu,9000,tokens/s",
        f"{RUN},mfu,41.5,%",
        f"{RUN},peak_memory_per_gpu,61.2,GB",
    )
    for wide, told in zip(found, long, strict=True):
        assert wide["predicted"] == pytest.approx(told["predicted"])
        assert wide["error"] == pytest.approx(told["error"])


@pytest.mark.parametrize(
    ("heading", "cell", "metric", "value", "unit"),
    [
        ("Step", "1.94 s", "step_time", "1.94", "s"),
        ("Step time (ms)", "1,940", "Step time (ms)", "1940", ""),
        ("TPS", "90k", "TPS", "90000.0", ""),
        ("MFU", "~42.0%", "MFU", "42.0", "%"),
        ("Peak Memory", "49.2 GB (61%)", "Peak Memory", "49.2", "GB"),
        ("MFU", "OOM", "MFU", "OOM", ""),
    ],
)
def test_a_cell_says_its_value_and_perhaps_its_unit(
    heading: str, cell: str, metric: str, value: str, unit: str
) -> None:
    columns = figure_columns([heading], [None])
    assert list(figures(columns, [cell])) == [{"metric": metric, "unit": unit, "value": value}]


def test_a_time_beside_other_figures_is_one_of_them(tmp_path: Path) -> None:
    head = f"{HEAD},Iteration Time (ms),Tokens/s"
    time, rate = priced(tmp_path, head, f'{RUN},900,"140,000"')
    assert (time["kind"], rate["kind"]) == ("time", "rate")
    assert time["predicted"] == pytest.approx(1e3 * time["step_time_s"])
    assert time["run"] == rate["run"]


def test_what_is_no_figure_of_a_step_is_passed_over() -> None:
    headings = ["Loss", "Time 1k iterations", "Throughput speedup", "Est. Walltime", "Tokens/s"]
    assert [c.heading for c in figure_columns(headings, [None] * 5)] == ["Tokens/s"]
    # a step's number is no time
    columns = figure_columns(["Step", "MFU"], [None, None])
    assert [told["value"] for told in figures(columns, ["1000", "40"])] == ["40"]


@given(st.lists(st.text(max_size=20), min_size=2, max_size=2))
def test_any_cells_yield_a_figure_or_the_text_that_is_none(cells: list[str]) -> None:
    columns = figure_columns(["Tokens/sec/GPU", "MFU"], [None, None])
    found = list(figures(columns, cells))
    assert 1 <= len(found) <= 2
    assert all(set(told) == {"metric", "unit", "value"} for told in found)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ({"devices": "16x H100 (two nodes)"}, {"devices": "16", "hardware": "H100 (two nodes)"}),
        ({"devices": "1,024 H100", "hardware": "Eos"}, {"devices": "1,024"}),
        ({"hardware": "8 x A100"}, {"devices": "8", "hardware": "A100"}),
        ({"hardware": "A100 80GB", "devices": "8"}, {}),
        (
            {"hardware": "GH200, 32 nodes / 128 GPUs"},
            {"devices": "128", "hardware": "GH200, 32 nodes / 128 GPUs"},
        ),
        ({"hardware": "H100, 8 GPUs per node"}, {}),
        ({"hardware": "one NVIDIA GB200"}, {"devices": "1", "hardware": "NVIDIA GB200"}),
        ({"hardware": "1 x A100"}, {"devices": "1", "hardware": "A100"}),
        ({"hardware": "one 8-GPU node of H100"}, {}),
        ({"devices": "8 GPUs", "hardware": "H100"}, {"devices": "8"}),
        ({"devices": "8 GPUs"}, {"devices": "8"}),
        ({"hardware": "2 nodes x 8 H100"}, {"devices": "16", "hardware": "H100"}),
        ({"devices": "4 nodes", "hardware": "DGX H100"}, {"nodes": "4", "devices": ""}),
        ({"hardware": "4 nodes of DGX H100"}, {"nodes": "4", "hardware": "DGX H100"}),
        ({"hardware": "2x p6-b300.48xlarge"}, {"nodes": "2", "hardware": "p6-b300.48xlarge"}),
        ({"hardware": "2x ml.p5e.48xlarge"}, {"nodes": "2", "hardware": "ml.p5e.48xlarge"}),
        ({"hardware": "4x v5p-256"}, {}),
        ({"hardware": "4x v100 16 GB"}, {"devices": "4", "hardware": "v100 16 GB"}),
        ({"hardware": "8"}, {"devices": "8", "hardware": ""}),
        ({"devices": "64 or 128", "hardware": "H100"}, {}),
        ({"devices": "64 to 128 GPUs", "hardware": "H100"}, {}),
        ({"devices": "2**3", "hardware": "H100"}, {}),
        ({"hardware": "64 or 128 H100"}, {}),
    ],
)
def test_one_cell_may_say_how_many_devices_of_which_kind(
    cells: dict[str, str], wanted: dict[str, str]
) -> None:
    assert counted(cells) == wanted


def test_the_kind_of_device_counts_where_no_system_is_said() -> None:
    assert meanings(["System", "GPU type"]) == ["hardware", None]
    assert meanings(["GPU", "Machine"]) == [None, "hardware"]
    assert meanings(["Model type", "Model"]) == [None, "model"]
    assert meanings(["#GPU", "testbed"]) == ["devices", "hardware"]
    assert meanings(["Zero Stage", "Zero++"]) == ["zero", None]


def test_a_size_beside_a_family_is_a_part_of_the_model(tmp_path: Path) -> None:
    head = "model,Model size,system,gpus,seq,gbs,mbs,tp,pp,dtype,MFU"
    cells = "DGX H100,8,4096,64,1,2,1,bf16,40"
    lines = ("LLaMA,13B", "Llama 2 7B,13B", "gpt3-xl,large", ",llama3-70b")
    found = priced(tmp_path, head, *(f"{line},{cells}" for line in lines))
    assert [round(row["parameters"] / 1e9) for row in found] == [13, 7, 1, 71]


def test_further_headings_are_passed_over_beside_a_columns_own(tmp_path: Path) -> None:
    head = "model,system,gpus,num_devices,seq,gbs,tp,tp_size,pp,dtype,data_type,recompute,ckpt,MFU"
    cells = "Llama 2 7B,DGX H100,8,4,4096,64,2,4,1,bf16,train,none,true,40"
    (row,) = priced(tmp_path, head, cells)
    assert (row["device_count"], row["plan"]["tensor"], row["dtype"]) == (8, 2, "bf16")
    assert row["plan"]["recompute"] == "none"


def test_counts_of_experts_in_columns_are_those_of_a_text(tmp_path: Path) -> None:
    shape = "layers,hidden,heads,seq,gbs,mbs,tp,pp,ep,dtype,MFU"
    cells = "24,2048,16,4096,64,1,1,1,8,bf16,30"
    told = priced(
        tmp_path,
        f"model,system,gpus,moe,ffn,{shape}",
        f"own,DGX H100,8,64 experts top-8,1024,{cells}",
    )
    apart = priced(
        tmp_path,
        f"model,system,gpus,NUM_EXPERTS,TOPK,MOE_FFN_HIDDEN_SIZE,{shape}",
        f"own,DGX H100,8,64,8,1024,{cells}",
    )
    assert told[0]["parameters"] == apart[0]["parameters"]
    assert told[0]["predicted"] == pytest.approx(apart[0]["predicted"])


def test_nodes_count_with_the_devices_of_one(tmp_path: Path) -> None:
    head = "model,system,nodes,gpus,seq,gbs,mbs,tp,pp,dtype,MFU"
    found = priced(
        tmp_path,
        head,
        "Llama 2 7B,DGX H100,4,,4096,64,1,2,1,bf16,40",
        "Llama 2 7B,DGX H100,4,16,4096,64,1,2,1,bf16,40",
    )
    assert [row["device_count"] for row in found] == [32, 16]


def test_a_table_without_a_machine_or_a_figure_says_so(tmp_path: Path) -> None:
    (unsaid,) = priced(tmp_path, "model,gpus,seq,gbs,MFU", "Llama 2 7B,8,4096,64,40")
    assert "hardware: got nothing" in unsaid["reason"]
    memory, rate = priced(tmp_path, f"{HEAD},Max GPU RAM,Samples per second", f"{RUN},OOM,12")
    assert "value: got 'OOM'" in memory["reason"]
    assert rate["status"] in {"priced", "searched"}
    file = tmp_path / "none.csv"
    file.write_text(f"{HEAD},Loss\n{RUN},2\n", encoding="utf-8")
    with pytest.raises(InvalidError, match="got no column of figures; allowed: value"):
        read_rows(file)


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("JUPITER, 16 nodes \u00d7 4 GPUs", "64"),
        ("GH200, 512 nodes x 4 gpus", "2048"),
        ("GB300 NVL72, 4 nodes of 4 GPUs", "16"),
        ("910b 2node*8p", "16"),
    ],
)
def test_nodes_and_devices_of_each_within_words_are_counted_together(text: str, devices: str):
    assert counted({"hardware": text})["devices"] == devices


@pytest.mark.parametrize("text", ["32x p6-b300 (256x B300)", "32x p6-b300", "32x DGX B300"])
def test_a_count_before_a_clouds_machine_is_of_machines(text: str):
    found = counted({"hardware": text})
    assert found["nodes"] == "32"
    assert not found.get("devices")


@pytest.mark.parametrize(
    ("hardware", "count"),
    [
        ("128 V100 GPUs (8 DGX-2 nodes, 16 GPU per node), InfiniBand", "128"),
        ("64 A100 GPUs, 8 GPUs per node", "64"),
    ],
)
def test_what_a_node_has_beside_all_devices_is_not_all(hardware: str, count: str) -> None:
    assert counted_in(hardware)["devices"] == count
    assert counted_in("V100, 16 GPUs per node") == {}
