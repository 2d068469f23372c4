"""`scalewright schedule`: how long does a step of each pipeline schedule take, what runs when?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from scalewright.cli.verb import Verbs
    from scalewright.planning import Schedule

# arrows of larger timelines would only hide them
_MOST_FLOWS = 10_000
_USED_BY = {"window": "interlocking", "slices": "terapipe", "feedback": "direct-feedback"}
"""The one schedule that takes an option; those that take `--hidden` say so themselves."""


def add(verbs: Verbs) -> None:
    """Add the verb."""
    parser = verbs.add_parser("schedule", help="run pipeline schedules over stage times")
    parser.add_argument(
        "names", nargs="*", metavar="SCHEDULE", help="names of --list (all that can run)"
    )
    parser.add_argument("--list", action="store_true", help="list the schedules")
    parser.add_argument("--stages", type=int, metavar="P", help="devices of the pipeline")
    parser.add_argument("--micro-batches", type=int, metavar="M", help="micro-batches of a step")
    parser.add_argument("--chunks", type=int, metavar="V", help="model chunks per device")
    parser.add_argument(
        "--window", type=int, default=1, metavar="K", help="stages that a local loss goes back (1)"
    )
    parser.add_argument(
        "--slices", type=int, default=1, metavar="S", help="parts of each sequence (1)"
    )
    parser.add_argument(
        "--order", metavar="FILE", help="an order of your own: a line of F0@3 B0@3 ... per device"
    )
    _add_times(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON for machines")
    output.add_argument(
        "--operations", action="store_true", help="with --json: times of every operation"
    )
    output.add_argument(
        "--simulate", action="store_true", help="add the makespan by event simulation"
    )
    output.add_argument("--timeline", metavar="FILE", help="write a trace for Perfetto or Chrome")
    output.add_argument("--picture", metavar="FILE", help="draw to FILE.svg, .pdf or .png")
    output.add_argument(
        "--width", type=float, metavar="IN", help="width of the picture in inches (7.2)"
    )
    parser.set_defaults(run=run)


def _add_times(parser: argparse.ArgumentParser) -> None:
    times = parser.add_argument_group(
        "times",
        'Of one micro-batch on a whole stage: seconds, or as "12 ms"; or a list with one for each '
        "stage, with commas between. Chunks and slices share the time of their stage evenly.",
    )
    times.add_argument("--forward", default="1", metavar="T", help="forward pass (1)")
    times.add_argument("--backward", default="2", metavar="T", help="whole backward pass (2)")
    times.add_argument(
        "--weight", metavar="T", help="its part for gradients of weights (half of it)"
    )
    times.add_argument(
        "--hidden", default="0", metavar="T", help="saved where two passes run together (0)"
    )
    times.add_argument(
        "--send", metavar="T", help="a tensor to the next device, or a list by border (0)"
    )
    times.add_argument(
        "--blocking", action="store_true", help="the sender waits until a tensor has arrived"
    )
    times.add_argument(
        "--feedback", default="0", metavar="T", help="until direct feedback may be used (0)"
    )
    times.add_argument(
        "--sizes", metavar="A,B,...", help="length of each micro-batch against one of length 1"
    )
    times.add_argument(
        "--per-chunk",
        action="store_true",
        help="times are those of chunks (and slices), not of stages",
    )


def run(options: argparse.Namespace) -> int:
    """Run the schedules and show them."""
    if options.picture:
        from scalewright.report.timeline import check_picture

        check_picture(options.picture)
    if options.list:
        _show_list(options)
        return 0
    _refuse_idle(options)
    answers, refused = _answers(options)
    if options.timeline:
        _write_timeline(answers, options.timeline)
    if options.picture:
        from scalewright.report.timeline import WIDTH_IN, draw_timelines

        width = WIDTH_IN if options.width is None else options.width
        draw_timelines([found.timeline() for found in answers], options.picture, width_in=width)
    if options.json:
        from scalewright.cli.output import show_json
        from scalewright.planning import stamp

        found = [answer.plain(operations=options.operations) for answer in answers]
        show_json({**stamp(), "schedules": found, "refused": refused})
    else:
        from scalewright.report import console, show_schedules

        show_schedules(answers, refused, _title(options, answers[0]), console())
    return 0


def _show_list(options: argparse.Namespace) -> None:
    from scalewright.planning import schedules, stamp

    if options.json:
        from scalewright.cli.output import show_json

        show_json({**stamp(), "schedules": [vars(rule) for rule in schedules()]})
        return
    from scalewright.report import console, show_rules

    show_rules(schedules(), console())


def _refuse_idle(options: argparse.Namespace) -> None:
    """Refuse options that change nothing of what is asked.

    Raises:
        InvalidError: One is given.
    """
    from scalewright.cli.refusing import refuse

    for name, other in (("operations", "json"), ("width", "picture"), ("blocking", "send")):
        given = getattr(options, name)
        if given is not None and given is not False and not getattr(options, other):
            refuse(name, given, f"only with --{other}")
    for name in ("window", "slices", "feedback", "hidden"):
        given = getattr(options, name)
        usual = set(_times(given)) == {0.0} if isinstance(given, str) else given == 1
        if not usual and (users := _users(options, name)):
            refuse(name, given, f"only with {users}")


def _users(options: argparse.Namespace, name: str) -> str:
    """Return what an option goes with, where nothing that is asked certainly does; else nothing."""
    from scalewright.planning import schedules

    rules = {rule.name: rule for rule in schedules()}
    pairs = [rule.name for rule in rules.values() if rule.pairs]
    users = [_USED_BY[name]] if name in _USED_BY else pairs
    asked = set(options.names)
    if not options.order:
        # without a name all run, and one that is none is refused as such
        idle = bool(asked) and asked <= rules.keys() - set(users)
    elif name == "slices":
        return f"{users[0]}, and without --order"
    else:
        # operations of an order may run together, and losses be local where no name is given
        idle = name != "hidden" and not asked & set(users) and (name != "window" or bool(asked))
    return " or ".join(users) if idle else ""


def _answers(options: argparse.Namespace) -> tuple[list[Schedule], dict[str, str]]:
    """Return the steps of the schedules, and why others cannot run.

    Raises:
        ScalewrightError: A value is wrong, or a schedule that was named cannot run.
    """
    from scalewright.errors import InvalidError
    from scalewright.planning import schedule, schedules
    from scalewright.planning.arguments import known_names

    asked = _asked(options)
    if options.order:
        if len(options.names) > 1:
            message = f"schedule: got {len(options.names)} names beside an order; allowed: one"
            raise InvalidError(message)
        name = options.names[0] if options.names else None
        order = _read_order(options.order)
        return [schedule(name, order=order, chunks=options.chunks, **asked)], {}
    rules = {rule.name: rule for rule in schedules()}
    answers: list[Schedule] = []
    refused: dict[str, str] = {}
    known_names("schedule", options.names, rules)
    names = list(dict.fromkeys(options.names)) or list(rules)
    for name in names:
        # among several, chunks are for those that deal them
        deals = len(names) == 1 or name not in rules or rules[name].chunks > 1
        try:
            answers.append(schedule(name, chunks=options.chunks if deals else None, **asked))
        except InvalidError as error:
            if options.names:
                raise
            refused[name] = str(error)
    if not answers:
        raise InvalidError("; ".join(dict.fromkeys(refused.values())))
    return answers, refused


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    sizes = None if options.sizes is None else _times(options.sizes)
    return {
        "stages": options.stages,
        "micro_batches": options.micro_batches,
        "window": options.window,
        "slices": options.slices,
        "forward_s": _times(options.forward),
        "backward_s": _times(options.backward),
        "weight_s": None if options.weight is None else _times(options.weight),
        "hidden_s": _times(options.hidden),
        "hop_s": _times(options.send or "0"),
        "feedback_s": _times(options.feedback),
        "sends": "blocking" if options.blocking else "asynchronous",
        "sizes": sizes,
        "simulate": options.simulate,
        "cut_stages": not options.per_chunk,
        "whole_backward": True,
    }


def _times(text: str) -> list[Any]:
    """Return the numbers of a list as such; the engine reads the others with their units."""
    times: list[Any] = []
    for part in text.split(","):
        try:
            times.append(float(part))
        except ValueError:
            times.append(part.strip())
    return times


def _read_order(path: str) -> str | list[Any]:
    """Return the text of a file, or its list where it is JSON.

    Raises:
        InvalidError: It cannot be read, or is no JSON though it looks like it.
    """
    import json
    from pathlib import Path

    from scalewright.errors import InvalidError

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        order = json.loads(text) if text.lstrip().startswith("[") else text
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        message = f"{path}: cannot be read as an order: {reason}"
        raise InvalidError(message) from error
    if not text.strip():
        message = f"{path}: got no line; allowed: a line of operations, as F0 B0, per device"
        raise InvalidError(message)
    return order


def _write_timeline(answers: Sequence[Schedule], path: str) -> None:
    from scalewright.export.trace import write_trace
    from scalewright.planning import joined

    flows = sum(len(answer.operations) for answer in answers) <= _MOST_FLOWS
    timelines = {answer.name: answer.timeline(flows=flows) for answer in answers}
    one = next(iter(timelines.values()))
    write_trace(one if len(timelines) == 1 else joined("schedules", timelines), path)


def _title(options: argparse.Namespace, first: Schedule) -> list[str]:
    of = "chunk" if options.per_chunk else "stage"
    said = [f"forward {_shown(options.forward)}", f"backward {_shown(options.backward)} a {of}"]
    part = "half of it" if options.weight is None else f"{_shown(options.weight)} of it"
    said.append(f"{part} for gradients of weights")
    for what, text in (("hidden", options.hidden), ("feedback", options.feedback)):
        if text != "0":
            said.append(f"{what} {_shown(text)}")
    if options.send not in (None, "0"):
        how = "blocking" if options.blocking else "asynchronous"
        said.append(f"{how} sends {_shown(options.send)}")
    for what, count in (("windows of", options.window), ("slices:", options.slices)):
        if count != 1:
            said.append(f"{what} {count}")
    if options.sizes:
        said.append(f"micro-batches of lengths {options.sizes}")
    counts = f"{first.stages} stages, {first.micro_batches} micro-batches"
    return [counts, ", ".join(said)]


def _shown(text: str) -> str:
    """Return times as they were given, plain numbers with their unit."""
    times = _times(text)
    plain = all(isinstance(time, float) for time in times)
    shown = ", ".join(f"{time:g}" if isinstance(time, float) else time for time in times)
    return f"{shown} s" if plain else shown
