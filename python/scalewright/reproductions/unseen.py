"""How near are predictions for sources that nobody wrote conventions for?"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Any

from scalewright.planning.error_band import Residual, Runs, band_of, recorded, unseen

Result = dict[str, Any]
HEADING = "## Sources that nobody wrote conventions for"
_TOLD = """\
Readers typed these rows off tables, posts and users' reports.

- They did so without sight of a prediction and without choosing by one.
- Nobody wrote conventions for the sources: classes of programs (`programs.toml`) and words alone
  tell what ran, but for a few whose names fall under the conventions of a program's own pages. What
  a row leaves open is a best case.
- No finding is written for a row here, and none counts in a table above. Bands rest on them, too:
  whoever names no software gets predictions like these.
- `scalewright reproduce --rows` prices `python/scalewright/catalog/published/unseen.csv` again.

They came in twenty-seven batches. *First* is as each batch was first priced, over the sources that
could be. *Mended* is the same batch after what it showed was put right, so in sample: what was
mended (spellings, classes of programs, an entry of MareNostrum 5) had the errors of the batch in
view. Mean and median are over the sources' medians."""
_APART = """\
Twelve rows of Qwen3.5 and Qwen3-Next came by themselves, when delta rules could be priced, as then
could seven rows of earlier batches. The host time of such rules was set in their view."""


@dataclass(frozen=True)
class _Batch:
    """Rows that came together: how many there were and how far off they were first priced."""

    rows: str
    sources: str
    first: tuple[int, int]
    """Mean and median over sources of their median errors, in percent."""
    remark: str
    priced: str = ""
    """Sources that could be priced."""
    mended: tuple[int, int] | None = None


# what is not known of a batch stays blank
_BATCHES = (
    _Batch(
        "258",
        "",
        (33, 23),
        "98 runs; most of all off: V100 of 2021 (OneFlow's tests, and one site that says of itself "
        "that equal runs differ by 40%). Showed: open tensor degrees were never one for mixtures; "
        "programs that no entry told",
        "15",
        (23, 12),
    ),
    _Batch(
        "152",
        "33",
        (40, 33),
        "mostly reports by users of what ran slowly; Google Cloud's recipes, whose settings are "
        "files, came out at 7%",
        "21",
    ),
    _Batch(
        "72",
        "13",
        (27, 13),
        "benchmarks and recipes; a mean of 16% without fine-tuning by adapters, which those rows "
        "said in their names alone. Showed: recipes of NeMo reduce gradients in bf16; a name may "
        "say LoRA",
        "12",
    ),
    _Batch(
        "150",
        "19",
        (25, 19),
        "most of them papers. Showed: `GPT 28.3B` taken for `gpt2-8.3b`, 2,048 tokens for a year, "
        "cores for chips, Megatron-LM of 2023 for later releases with kernels for Llama, pipelines "
        "of one stage a rank for interleaved ones",
        "17",
        (23, 17),
    ),
    _Batch(
        "123",
        "30",
        (28, 21),
        "2020 to 2026, a third papers. Showed: plans nobody tells moved to host memory where they "
        "did not fit; rows until 2022 given selective recomputation, programs of PyTorch on Hopper "
        "cuDNN's attention. Mended: without ten rows whose sequences are shorter than they say",
        mended=(23, 20),
    ),
    _Batch(
        "",
        "25",
        (50, 40),
        "tables as their sources print them, before a file could have a column for each metric. "
        "Showed: headings as `SeqLen`, counts of experts in columns and layouts in words were not "
        "known; TPU7x priced by the default of GPUs. Mended: Megatron-Core's report on mixtures "
        "8%, a mixture on GH200 9%, Megatron-Core's paper on folded degrees 11%, recipes of TPU7x "
        "17%, notes on sixteen H100 38%, a program of its own 70%",
        "6",
        (26, 14),
    ),
    _Batch("", "", (28, 27), ""),
    _Batch("", "", (35, 26), "logs of repositories"),
    _Batch("", "", (26, 23), ""),
    _Batch("", "30", (40, 39), "cells as printed", "7"),
    _Batch(
        "223",
        "39",
        (39, 31),
        "many of them users' runs on one node or one board, small machines and models among them. "
        "Showed: remarks name the sharding whose column is blank; `torch` is PyTorch; a model of "
        "letters has no 50,000 tokens. Mended: over 30 sources",
        "28",
        (32, 29),
    ),
    _Batch(
        "106",
        "19",
        (57, 25),
        "V100 in a format that is not said among them; the others name no device, shape or "
        "sequence, or join two models (32 more rows, of 11 sources without an address, were left "
        "out). Showed: cells hold remarks (`0 (DDP)`, `QLoRA (4-bit base)`); words tell the tokens "
        "of a whole run; MFU in fp8 may be of the peak in bf16; mixtures on Grace and those of "
        "users were given the pace of others' hosts",
        "5",
    ),
    _Batch(
        "59",
        "18",
        (144, 37),
        "of 149 typed, 90 more name no device, no shape of a model known here or no training step; "
        "two of the seven report runs 4 and 40 times slower than they should be. Showed: "
        "`TF/s/GPU`, days for so many tokens in the name of a metric, `ZeRO-2 optimizer`, models "
        "without prediction layers. Mended: over ten sources, Megatron-LM on MI355X 28 to 40% too "
        "fast among them",
        "7",
        (133, 59),
    ),
    _Batch(
        "53",
        "14",
        (101, 69),
        "of 178 typed from 53 sources; the rest say no sequence, no device or a model that is not "
        "known here. First priced over 19 sources, all but one of them too fast: logs of untuned "
        "runs, tutorials and cards that say that nobody tuned them. Showed: `PCI-E`; proxies of "
        "some layers; GPU hours of a run whose tokens are counted out; whose checkpointing it is; "
        "ranks that are halves of boards. Mended: over 23 sources, those included that could then "
        "be priced",
        "19",
        (75, 69),
    ),
    _Batch(
        "107",
        "16",
        (74, 37),
        "of 331 typed from 50 sources: 87 rows whose documents have no address, and 61 of inferred "
        "ones, were left out, and so were three sources that their typist called ambiguous, "
        "boards that are not named and pages of FlagPerf, which has conventions; the rest run on "
        "devices that are not known here (A64FX, MetaX, Apple). Most are users' reports and tables "
        "of repositories of 2023 to 2026. Showed: `none stated`; `none (DDP)`; `mixed (amp)`; pure "
        "16 bits of torchtune and in remarks; attention that is not fused. Furthest off: a release "
        "for Vera Rubin without fused kernels, eight RTX 4090 in one host, experts that one "
        "program computes one after another",
        "16",
        (60, 24),
    ),
    _Batch(
        "106",
        "8",
        (41, 29),
        "of 267 typed from 25 sources; the rest name no device, no sequence, no batch beside a "
        "step or a model that is not known here. Most were typed without their plans. Showed: "
        "models whose size is a word (`bert_large_squad`); `GC`; `sp` under sequence parallelism; "
        "weights of bitsandbytes; adapters that are no LoRA, which are refused now; boards of "
        "Volta without a year have the programs of 2022; nanotron keeps what its tensor ranks "
        "gather (memory of one stage within 4%, of several a fifth to a third short). "
        "Mended: over seven sources. Furthest off: Hugging Face Transformers' guide to experts, "
        "whose batch is not said, and LoRA at one sequence a device",
        "5",
        (45, 32),
    ),
    _Batch(
        "105",
        "25",
        (30, 37),
        "cards of models and papers that tell a run's days or device hours and its tokens, tables "
        "of repositories. Most were typed without their plans, ten figures from memory. 48 rows "
        "could not be read at first. Showed: `GPU-hours (1.5T tokens)`, `days to train on 1T "
        "tokens`; device hours without a count of devices; `8X`; a size behind a name (`GPT-2 "
        "(774M)` was taken for the smallest); conventions of LLaMA taken for Llama 2's; the host "
        "of a card taken for its program; servers of Ascend's third generation taken for the "
        "second; no profile of llm.c; nanochat's sequences. Mended: over 20 sources, 17 of them "
        "too fast, as best cases of whole runs are. 16 rows name no device, or a device, a model "
        "or ranks that are not known here. Furthest off: Lucie-7B, at 6% of the peak, and the 8B "
        "of Llama 3.1",
        "9",
        (35, 38),
    ),
    _Batch(
        "168",
        "20",
        (54, 18),
        "notes, logs and cards of repositories of 2021 to 2026: boards of one to 5090, TPU v2 to "
        "v7, Ascend, MI355X. 56 rows could not be read at first. Showed: metrics and remarks in "
        "Chinese, `z = 1`, FLOP/s of all GPUs taken for one's (fivefold, which made the mean), "
        "sixteen V100 of a node for two nodes, a board of twice the memory, cores of TPUs and tiles"
        " for chips, `524K tokens`; degrees that torchtitan, XTuner and trainers of Hugging Face's "
        "models do not have were searched; XTuner computes layers again and counts them; FLOPs of "
        "six a parameter; models and boards that the catalog lacked. Furthest off: a 30M model on "
        "one A100 and TPUs at 12% of the peak, a hybrid's continued training whose plan is not "
        "said, GPT-2 of Hugging Face on V100",
        "17",
        (23, 14),
    ),
    _Batch(
        "188",
        "20",
        (61, 22),
        "notes, logs, recipes and papers of 2023 to 2026: boards from 3090 to 5090, A100, GH200, "
        "GB10, GB200 and GB300, MI300X and MI355X, TPU v4 and v5p. 83 rows could not be read at "
        "first. Showed: `1048576 (1M)`, `5120 (4x)`, `2816 dense, 384 expert`, `Llama 3-8B E8T2`, "
        "`CF 4`, `688k aggregate`, `peak GB`, `data_parallel_shard_degree -1`, flags and Chinese "
        "words for recomputation; gates, tied tables and sizes without tables in remarks; rate "
        "and step of a run make its batch; Mistral-Nemo taken for NeMo; torchtitan's sequences; "
        "`compile` under FSDP; no class for FSDP of PyTorch/XLA. Mended: over 19 sources. "
        "18 rows say no width, a board by its architecture alone or GPT-2 of 2B. Furthest off: "
        "samples said to be 2,048 tokens each, which needs more than the peak of a GB10; a million "
        "tokens of context on TPU v5p; experts under ZeRO-3 without expert ranks",
        "13",
        (51, 18),
    ),
    _Batch(
        "157",
        "19",
        (37, 36),
        "posts, recipes, logs and papers of 2024 to 2026: boards from a laptop's RTX 3050 to B300 "
        "and MI355X, TPU v5e and v6e, Ascend 910, Max 1550. 104 rows could not be read at first, "
        "most of three pages that print spreads. Showed: `1444.4 ± 6.4`, `28.25 ± 0.02%`; layers "
        "in words (`61 layers (3 dense + 58 MoE)`, `4 layers + MTP`); `LatentMoE 3072`; key heads "
        "of two kinds; `PP(1)`, `334k`; `remat_policy=full`; state `in CPU memory`; `Time to 1T "
        "tokens`; LoRA's places in remarks; Lightning Attention taken for Lightning; nanoGPT's "
        "share against an A100's peak. Mended: over 17 sources, 15 of them predicted too fast. "
        "22 rows say no shape, no sequence or fewer layers computed again than a stage "
        "has. Furthest off: a trainer in Rust without tensor cores; state in host memory on H800, "
        "at 12 GB/s; a plan on eight v5e that the model of memory finds too large",
        "6",
        (32, 28),
    ),
    _Batch(
        "179",
        "21",
        (29, 28),
        "notes, issues and pull requests of 2019 to 2026: boards from a laptop's RTX 4060 to B300 "
        "and MI355X, V100, RTX 6000 Ada, GH200. 93 rows could not be read at first. Showed: "
        "`n_layer = 6`, `4096 tokens` a micro-batch, `SwiGLU 5632`, `hidden_ratio 4`, `ZeRO-3 + TP`"
        ", `16 nodes x 4 GPUs`, `median ms`; `tokens/s (8 GPU)` taken for one's, `BF16 (fp8=None)` "
        "for fp8, LoRA in remarks for training of all weights, DeltaNet for attention, a "
        "`DeepSeek-V3 proxy` for plain attention, letters for 51,200 tokens, another paper on "
        "DeepSeek-V3 for its report; runs that spilled to the host. Mended: over 16 sources, 13 of "
        "them predicted too fast. 33 rows say no shape, no sequence or no batch, or a mixer that "
        "no column tells. Furthest off: JAX in fp32 with 144k tokens of vocabulary on RTX 6000 "
        "Ada; DeepSeek-V3 over EFA; Nemotron 3 Nano without accumulation over Slingshot",
        "9",
        (34, 31),
    ),
    _Batch(
        "185",
        "22",
        (36, 25),
        "READMEs, notes, tests, issues of 2019 to 2026: V100, Ascend 910, TPU v3 and v4, MI250X, "
        "L40S, RTX 3090, Arc Pro B60, Max 1550, H200, B200, GB300. 143 rows could not be read at "
        "first. Showed: `PDB 8`, `bs=4/gpu`, `24 hidden layers`, `remat_policy=minimal`, headings "
        "in Chinese with a unit, times of whole runs beside their steps; `16 GPU per node` taken "
        "for all 128, cores of a TPU slice for chips, `FSDP over 4 chips` and DDP given tensor "
        "ranks, torchtitan that was not compiled for compiled, `GPT-3` of 4,096 columns given the "
        "feed-forward parts of 12,288. Mended: over 16 sources, 13 of them predicted too fast. 31 "
        "rows say no shape, no sequence or a batch in thousands of neither kind. Furthest off: "
        "hybrids of Mamba and delta rules on H100 and B200, a dense model of 80B on Max 1550, a "
        "toy of 125M on A100",
        "8",
        (32, 25),
    ),
    _Batch(
        "114",
        "14",
        (41, 37),
        "papers of 2021 to 2026: P100, RTX 3090, A100, A800, H100, GH200, MI250X, TPU v5p. 55 rows "
        "could not be read at first, 30 of them of Li et al. 2021. Showed: `over 9,200`, `1 "
        "million` tokens, `million tokens/s`, `of 1 PFLOP/s`, `peak activation memory`; "
        "accumulation in remarks, norms alone computed again, TinyLlama's and Poro's sequences; "
        "ZeRO-3 given pipeline ranks, experts without gates given gates, LUMI's Megatron-DeepSpeed "
        "taken for another, fairseq's masks over experts, state of LOMO and SGD taken for Adam's. "
        "Mended: over 12 sources. 41 rows say no shape, have 12 layers over 8 stages or are memory "
        "of other optimizers. Furthest off: a mixture whose sequence is not said on A100, RTX 3090 "
        "without peer access whose cards share 2.5 GB/s, OLMoE of 7B whose plan and program are "
        "not said",
        "10",
        (35, 31),
    ),
    _Batch(
        "259",
        "24",
        (39, 31),
        "notes, logs and READMEs of 2023 to 2026: boards of a laptop, A10, H100, H200, B200, "
        "MI355X, RTX PRO 6000, TPU v5p, Trainium2. 73 rows could not be read, most for want "
        "of a batch, of a sequence or of a model. Nothing was mended for it: what programs do"
        " unasked, which other rows had shown, brought torchtitan on MI355X from -57% to -33%"
        " and Levanter on TPU v5p from -39% to -27%. Furthest off: GPT-2 on H100 through "
        "loops that are not said",
        "19",
        (37, 31),
    ),
    _Batch(
        "87",
        "18",
        (30, 28),
        "runs whose plans are said in full, of 2023 to 2026: READMEs of FlagPerf (eight, H100, "
        "H800, A800, A100), Megatron-LM, NeMo, LLaMA-Factory, torchtitan, Alps. 36 rows could not "
        "be read at first. Showed: conventions of a paper taken for other pages of its name, "
        "fused updates of weights passed over, `62/80` of memory, DeepSpeed's gradients taken as "
        "fp32, Transformers of 2023 given fused attention, fp32 that only TF32 can be, a mixture "
        "of 8 x 1.8B taken for a dense model, `MFU` that counts recomputation. Mended: over 17 "
        "sources, 13 of them predicted too fast. 16 rows say no batch or no board, or are LoRA's "
        "FLOPs or memory of QLoRA. Furthest off: 0.3B parameters on 32 GH200, LLaMA in FSDP of "
        "2023 whose sequence is not said",
        "17",
        (19, 19),
    ),
    _Batch(
        "134",
        "12",
        (21, 15),
        "full training runs of 2024 to 2026: H100, H200, B200, A6000, GH200, A100 (40 GB), MI350X, "
        "Atlas 900 A2, TPU v6e. 23 rows could not be read at first, 5 then: of one server no board "
        "is named, of one model no shape. Showed: a vocabulary that is a tokenizer's name, the "
        "month of a release taken for a version, `with and without FlashAttention` taken for "
        "without, capacity factors that stand beside the experts, MaxText's products with masks, "
        "its degree of -1 and its custom policy passed over, formats of gradients that a row says, "
        "FlashAttention-2 taken for cuDNN's kernels in 2026 and on B200. Mended: over 11 sources, "
        "8 of them predicted too fast. Furthest off: 125M parameters on GH200 at the rate of "
        "760M, MI350X whose batch is not said",
        "10",
        (14, 13),
    ),
    _Batch(
        "153",
        "18",
        (39, 38),
        "boards with few rows before: RTX 5090, MI300X and MI325X, MetaX C500, V100, A6000, GB10, "
        "H800, Atlas 800T A2, B200, GB300; LoRA by Surogate, Unsloth, PEFT. A decimal comma "
        "(`30,1k`) ended the whole file in an error of Python; *first* is with points in their "
        "place, 45 rows not read, 15 then: formats called FP4, batches that are not said or do not "
        "divide, memory of QLoRA. Showed: StarCoder of 1B, 3B and 7B without an entry and taken "
        "for StarCoder2, a board's name in Chinese, `20.5G` of memory, Megatron-LM's flag "
        "`recompute-activations`, `no gradient accumulation` passed over. Mended: over 16 "
        "sources, 11 of them predicted too fast. Furthest off: BERT on Ascend 910B of 2023, "
        "AMD's FSDP on MI300X, of which no program is known, LoRA of PEFT in 256 tokens",
        "15",
        (38, 37),
    ),
)


def unseen_section(rows: list[Result]) -> str:
    """Return the section of the page: sources, and how many of their runs bands hold.

    Args:
        rows: The rows of `unseen.csv` with their residuals.
    """
    residuals, widened = recorded()
    every = Runs(residuals)
    lines = [
        f"{HEADING}\n",
        f"{_TOLD}\n",
        _batch_table(),
        f"\n{_APART}\n",
        "As they are priced now, errors of the time of a step:\n",
        "| source | runs | median | signed median | inside the band of others |",
        "|---|---|---|---|---|",
    ]
    medians: list[float] = []
    shares: list[float] = []
    sources = _sources()
    for paper, runs in sources.items():
        errors = [_error(run) for run in runs]
        medians.append(statistics.median(map(abs, errors)))
        bands = [
            band_of(run.traits, every, apart=paper).widened(widened.of(run.traits)) for run in runs
        ]
        held = [band.misses(run) <= 0.0 for band, run in zip(bands, runs, strict=True)]
        shares.append(statistics.fmean(held))
        lines.append(
            f"| {paper.replace('|', '/')} | {len(runs)} | {medians[-1]:.0%} | "
            f"{statistics.median(errors):+.0%} | {sum(held)} |"
        )
    count = sum(map(len, sources.values()))
    of_runs = statistics.fmean(shares, [len(runs) for runs in sources.values()])
    skipped = sum(row["status"] == "skipped" for row in rows)
    mean, middle = statistics.fmean(medians), statistics.median(medians)
    lines.append(
        f"\n{count} runs of {len(sources)} sources; {skipped} rows lack what a price needs. "
        f"The mean of the medians is {mean:.0%}, their median {middle:.0%}; bands that rest on "
        f"other sources hold {of_runs:.0%} of the runs, {statistics.fmean(shares):.0%} with each "
        "source counted once."
    )
    return "\n".join(lines)


def unseen_line() -> str:
    """Return the line of the README's table: the errors of sources, each at its median, once."""
    medians = [statistics.median(map(_error, runs)) for runs in _sources().values()]
    sizes = [statistics.median(abs(_error(r)) for r in runs) for runs in _sources().values()]
    high = statistics.quantiles(sizes, n=10)[-1]
    return (
        f"| {len(sizes):,} sources without hand-written settings: median of their medians | "
        f"{len(unseen()):,} | {statistics.median(sizes):.1%} | {high:.1%} | "
        f"{statistics.median(medians):+.1%} |"
    )


def unseen_sides() -> str:
    """Say how many of those sources are predicted too fast."""
    medians = [statistics.median(map(_error, runs)) for runs in _sources().values()]
    fast = sum(error < 0.0 for error in medians)
    return f"For {fast:,} of its {len(medians):,} sources the median prediction is too fast."


def _batch_table() -> str:
    lines = [
        "| batch of rows | rows | sources | sources priced | first: mean of medians | "
        "first: median of medians | mended: mean | mended: median | remark |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for number, batch in enumerate(_BATCHES, 1):
        mended = ("", "") if batch.mended is None else tuple(f"{e}%" for e in batch.mended)
        cells = (number, batch.rows, batch.sources, batch.priced, *(f"{e}%" for e in batch.first))
        lines.append("| " + " | ".join(map(str, (*cells, *mended, batch.remark))) + " |")
    return "\n".join(lines)


def _sources() -> dict[str, list[Residual]]:
    found: dict[str, list[Residual]] = {}
    for run in unseen():
        found.setdefault(run.paper, []).append(run)
    return found


def _error(run: Residual) -> float:
    """Return predicted over measured time less one."""
    return math.exp(-run.log_ratio) - 1.0
