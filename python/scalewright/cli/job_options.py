"""Which options describe a job, and which job do they mean?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from scalewright.planning import Job

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")
STATES = ("fp32", "bf16", "fp16")
OPTIMIZERS = ("adam", "sgd", "adafactor", "muon")
EXPORTS = ("megatron", "torchtitan", "deepspeed")


def add_job_options(
    parser: argparse.ArgumentParser,
    *,
    required: bool = True,
    required_system: bool = True,
    runs: bool = True,
) -> None:
    """Add the options that say model, machines and training; `runs`: also those of a whole run."""
    job = parser.add_argument_group("job")
    job.add_argument(
        "--model", required=required, metavar="NAME|FILE", help="catalog name, config.json or TOML"
    )
    job.add_argument(
        "--system", required=required_system, metavar="NAME|FILE", help="catalog name or TOML file"
    )
    job.add_argument(
        "--devices", required=required, type=int, metavar="N", help="devices of the job"
    )
    job.add_argument(
        "--global-batch", required=required, type=int, metavar="B", help="sequences per step"
    )
    job.add_argument(
        "--sequence", required=required, type=int, metavar="S", help="tokens per sequence"
    )
    job.add_argument("--precision", choices=PRECISIONS, help="number formats (bf16)")
    job.add_argument(
        "--state",
        choices=STATES,
        help="format of moments and master weights (fp32); bf16: training in pure bf16",
    )
    job.add_argument("--optimizer", choices=OPTIMIZERS, help="optimizer (adam)")
    job.add_argument("--no-flash", action="store_true", help="attention scores go through memory")
    job.add_argument("--dropout", action="store_true", help="dropout on scores and residuals")
    job.add_argument(
        "--software", metavar="NAME", help="profile of the training program (docs/software.md)"
    )
    job.add_argument("--forward-only", action="store_true", help="no gradients, no optimizer")
    job.add_argument(
        "--memory-margin",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of device memory to leave free, on top of the stated reserve (0)",
    )
    if runs:
        job.add_argument(
            "--run-tokens", type=float, metavar="N", help="tokens of the whole run, for its price"
        )
        job.add_argument(
            "--goodput",
            type=float,
            metavar="SHARE",
            help="share of the run's time in which its steps count; failures and checkpoints take "
            "the rest (1)",
        )
    add_catalog(job.add_argument)


def add_catalog(add_argument: Callable[..., object]) -> None:
    """Add the option of a user's own catalog files to a parser or a group of one."""
    add_argument(
        "--catalog",
        action="append",
        default=[],
        metavar="DIR|FILE",
        help="your own devices, systems, models; may be repeated",
    )


def add_names(parser: argparse.ArgumentParser) -> None:
    """Add model and system by their places, instead of `--model` and `--system`."""
    parser.add_argument("names", nargs="*", metavar="MODEL SYSTEM", help="instead of the options")


def take_names(options: argparse.Namespace) -> None:
    """Set model and system to the names that were given by their places.

    Raises:
        InvalidError: There are too few or too many, by place and option together.
    """
    from scalewright.errors import InvalidError

    if options.names:
        given = [name for name in (options.model, options.system) if name is not None]
        if len(options.names) != 2 or given:
            message = (
                f"names: got {' '.join(options.names)!r:.80}; "
                "allowed: a model and a system, and then neither --model nor --system"
            )
            raise InvalidError(message)
        options.model, options.system = options.names
    for name in ("model", "system"):
        if getattr(options, name) is None:
            message = f"--{name}: got nothing; allowed: a catalog name or a file"
            raise InvalidError(message)


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how the answer is shown."""
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON for machines")
    output.add_argument(
        "--explain", action="store_true", help="formula, inputs and source of each term"
    )
    output.add_argument(
        "--export", choices=EXPORTS, help="print the plan as settings of a framework instead"
    )
    output.add_argument(
        "--stages",
        choices=("ends", "all"),
        default="ends",
        help="pipeline stages in the memory table: first, fullest and last (ends), or all",
    )


def job_of(options: argparse.Namespace, read: Mapping[str, Any] | None = None) -> Job:
    """Return the job that the options describe; `read` holds what another file says of it."""
    from scalewright.config import Training
    from scalewright.errors import InvalidError
    from scalewright.planning import Job, model, system

    given: dict[str, Any] = dict(read or {})
    said = {"devices": options.devices, **_training(options)}
    wanted: dict[str, Any] = {
        **given.get("training", {}),
        "devices": given.get("devices"),
        **{key: value for key, value in said.items() if value is not None},
    }
    for name in ("devices", "global_batch", "sequence"):
        if wanted.get(name) is None:
            message = f"--{name.replace('_', '-')}: got nothing; allowed: a whole number above 0"
            raise InvalidError(message)
    if wanted.get("goodput") is not None and wanted.get("run_tokens") is None:
        message = f"--goodput: got {wanted['goodput']} without --run-tokens; allowed: both or none"
        raise InvalidError(message)
    devices = wanted.pop("devices")
    name = given["model"] if options.model is None else options.model
    job = Job(
        model(name, overrides=options.catalog),
        system(options.system, devices, overrides=options.catalog),
        Training(**wanted),
        options.memory_margin,
    )
    if options.software is None:
        return job
    return job.with_software(options.software, overrides=options.catalog)


def _training(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the options say of the training; nothing where they leave it open."""
    return {
        "global_batch": options.global_batch,
        "sequence": options.sequence,
        "precision": options.precision,
        # gradients of weights that are updated themselves have their format
        "state": options.state,
        "gradient": None if options.state == "fp32" else options.state,
        "optimizer": options.optimizer,
        "run_tokens": getattr(options, "run_tokens", None),
        "goodput": getattr(options, "goodput", None),
        "flash_attention": False if options.no_flash else None,
        "dropout": options.dropout or None,
        "forward_only": options.forward_only or None,
    }
