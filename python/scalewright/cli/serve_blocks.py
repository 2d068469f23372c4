"""`scalewright serve-blocks`: how does a model larger than the device generate the most?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scalewright.cli.job_options import add_catalog, add_names, take_names

if TYPE_CHECKING:
    import argparse

    from scalewright.cli.verb import Verbs


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "serve-blocks",
        help="place a model larger than the device to generate text",
        usage="scalewright serve-blocks [MODEL SYSTEM] ...",
    )
    add_names(parser)
    parser.add_argument("--model", metavar="NAME|FILE", help="catalog name, config.json or TOML")
    parser.add_argument("--system", metavar="NAME|FILE", help="catalog name or TOML file")
    parser.add_argument("--prompt", type=int, default=512, metavar="N", help="tokens (512)")
    parser.add_argument("--generate", type=int, default=32, metavar="N", help="tokens (32)")
    parser.add_argument("--batch", type=int, metavar="N", help="sequences of a batch (any)")
    parser.add_argument("--batches", type=int, metavar="N", help="batches of a block (any)")
    parser.add_argument("--weights", default="fp16", metavar="FORMAT", help="of weights (fp16)")
    parser.add_argument("--cache", default="fp16", metavar="FORMAT", help="of the cache (fp16)")
    parser.add_argument(
        "--usable", type=float, default=0.9, metavar="SHARE", help="of each memory (0.9)"
    )
    parser.add_argument(
        "--attention",
        default="either",
        metavar="WHO",
        help="attends to cache outside the device: host, device or either (either)",
    )
    parser.add_argument(
        "--host-attention",
        metavar="RATE",
        help='cache that the host attends to, as "12 GB/s" (as fast as its memory is read)',
    )
    parser.add_argument(
        "--no-flash", action="store_true", help="the device keeps attention scores in memory"
    )
    add_catalog(parser.add_argument)
    parser.add_argument("--json", action="store_true", help="print JSON for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Find the best block and show it."""
    from scalewright.planning import model, serving_blocks, system

    take_names(options)
    served = model(options.model, overrides=options.catalog)
    machine = system(options.system, 1, overrides=options.catalog)
    block = serving_blocks(
        served,
        machine,
        prompt=options.prompt,
        generated=options.generate,
        weights=options.weights,
        cache=options.cache,
        usable=options.usable,
        attention=options.attention,
        flash_attention=not options.no_flash,
        host_attention=options.host_attention,
        batch=options.batch,
        batches=options.batches,
    )
    if options.json:
        from scalewright.cli.output import show_json

        show_json(block.to_dict())
    else:
        from scalewright.report import console, show_overridden, show_serving

        show_serving(block, served, machine, console())
        show_overridden(console(), served, machine)
    return 0 if block.fits else 3
