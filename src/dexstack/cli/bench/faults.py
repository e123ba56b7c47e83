"""``dexstack bench faults``: what an emulated hand does when things go wrong, each fault alone."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.output import add_json_argument, machine, note, publish, table
from dexstack.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench faults``."""
    p = subparsers.add_parser(
        "faults",
        help="the fault matrix of the emulated hand, or fuzzed commands and frames",
        description="Lets one fault after the other happen to an emulated hand that moves, and checks that every one ends in HOLD, READY "
        "or FAULT within its time, that no torque passes a limit, and that nothing but consent switches the hand on again. With --fuzz, "
        "random commands and frames with faults switched at random. Exit code 0 only if all of that holds.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument(
        "--only",
        metavar="TEXT",
        nargs="+",
        default=[],
        help="only the faults with one of these texts in their names",
    )
    p.add_argument("--page", type=Path, metavar="FILE", help="write the results as a page of Markdown, too")
    p.add_argument(
        "--fuzz",
        type=positive_int,
        metavar="N",
        help="N random commands instead, and a tenth as many random frames",
    )
    p.add_argument("--seed", type=natural, default=0, metavar="S", help="seed of the random ones")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run the matrix, or fuzz.

    Returns:
        0 when everything held, otherwise 1.
    """
    return _fuzz(args) if args.fuzz else _matrix(args)


def _matrix(args: argparse.Namespace) -> int:
    from dexstack.bench.faults import Outcome, all_faults, tick_cost

    rows, of_graph = _chosen(all_faults(), args.only), _chosen(_graph_rows(), args.only)
    for text in args.only:
        if not any(text in name for name in (*rows, *of_graph)):
            raise ConfigError(f"no fault has '{text}' in its name")
    outcomes: list[Outcome] = []
    moves = True

    def add(outcome: Outcome) -> None:
        outcomes.append(outcome)
        verdict = "" if outcome.passed else " FAILED"
        note(
            f"{len(outcomes)}/{len(rows) + len(of_graph)} {outcome.fault}: {outcome.ended_in} after {1e3 * outcome.seconds:.0f} ms{verdict}"
        )

    for name, make in rows.items():
        add(make(name))
    if of_graph:
        from dexstack.cli.bench.graph_faults import graph, moves_on

        with graph() as g:
            moves = moves_on(g)
            for name, make_in in of_graph.items():
                add(make_in(g, name) if moves else Outcome(name, "not judged", math.nan, math.nan))
    times = [o.seconds for o in outcomes if math.isfinite(o.seconds)]
    failed = [o.fault for o in outcomes if not o.passed]
    faults = [
        {
            "fault": o.fault,
            "ended_in": o.ended_in,
            "seconds": o.seconds,
            "limit_s": o.limit_s,
            "torque_kept": o.torque_kept,
            "stayed_off": o.stayed_off,
        }
        for o in outcomes
    ]
    results: dict[str, Any] = {
        "checked": len(outcomes),
        "failed": len(failed),
        "moves_without_fault": moves,
        "worst_s": max(times, default=math.nan),
        "faults": faults,
    }
    results["tick"] = tick = tick_cost()
    if args.page is not None:
        try:
            args.page.write_text(page(results))
        except OSError as error:
            raise ConfigError(f"cannot write {args.page}: {error.strerror}") from None
    cells = [
        (o.fault, o.ended_in, 1e3 * o.seconds, 1e3 * o.limit_s, "" if o.passed else "FAILED")
        for o in outcomes
    ]
    view = table(
        "Fault matrix of the emulated hand", ("fault", "ended in", "after [ms]", "limit [ms]", ""), cells
    )
    line = f"{len(outcomes)} faults, {len(failed)} failed" + (f": {', '.join(failed)}" if failed else "")
    line += "" if moves else "; the graph stands still without a fault: the machine is too busy to judge it"
    line += f"; a tick of the servo takes {1e6 * tick['servo_s']:.0f} µs, {1e6 * tick['watch_s']:.0f} µs of it the watch over the joints"
    publish(args, "bench faults", results, view, line)
    return 0 if moves and not failed else 1


def _chosen(faults: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """Those with one of the texts in their names; without texts, all."""
    return {name: make for name, make in faults.items() if not texts or any(text in name for text in texts)}


def _graph_rows() -> dict[str, Any]:
    """Faults of a whole graph, where there is ROS 2."""
    try:
        from dexstack.cli.bench.graph_faults import graph_rows
    except ImportError as error:
        note(f"without the faults of a graph: {error}")
        return {}
    return graph_rows()


def page(results: dict[str, Any]) -> str:
    """The page of results, from what goes into the JSON object."""
    lines = [
        "# The fault matrix",
        "",
        "Written by `dexstack bench faults --page FILE`. Each fault alone, on an emulated hand in a process of its own whose joints are",
        "commanded all the time; the last ones in a graph, `dexstack up mock --perception camera`, whose messages go through a relay that",
        "can lose them. The time runs from the fault to the moment the motors lose their torque; where nobody can reach the hand, to the",
        "moment the driver knows; where the hand holds, to the moment its target stands still; in commissioning, from the last good",
        "measurement to the end of the torque. Wires are wrong from the moment on in which the hand is enabled. Before each row of the",
        "graph the target has moved without a rest of 0.4 s; while messages are lost or the camera is wrong the time is that of its last",
        "motion in two seconds. Without a fault it moved on for as long; a run on a machine too busy for that has failed.",
        "Nobody here may set the clock of the computer: in the first rows the driver is told another time, in the last the camera's stamps",
        "step. A parameter that is loosened is refused and one that is tightened is taken, at once, and a stop ends the row.",
        "",
        f"{results['checked']} faults, {results['failed']} failed, the slowest after {results['worst_s']:.3f} s. "
        f"{machine()['cpu']}, {machine()['cores']} cores.",
        "",
        "| fault | ended in | after [ms] | limit [ms] | torque within limits | switched on by itself |",
        "|---|---|---|---|---|---|",
    ]
    for f in results["faults"]:
        took = f"{1e3 * f['seconds']:.0f}" if math.isfinite(f["seconds"]) else "never"
        kept, off = ("yes" if f["torque_kept"] else "**no**"), ("no" if f["stayed_off"] else "**yes**")
        late = not f["seconds"] <= f["limit_s"]
        lines.append(
            f"| {f['fault']} | {f['ended_in'].upper()} | {f'**{took}**' if late else took} | {1e3 * f['limit_s']:.0f} | {kept} | {off} |"
        )
    return "\n".join(lines) + "\n"


def _fuzz(args: argparse.Namespace) -> int:
    from dexstack.hand.fuzz import fuzz_commands, fuzz_hand
    from dexstack.model.hand import load_hand

    hand = load_hand("right")
    note(f"{args.fuzz} commands")
    commands = fuzz_commands(hand, args.fuzz, args.seed)
    note(f"{max(1, args.fuzz // 10)} frames")
    frames = fuzz_hand(hand, max(1, args.fuzz // 10), args.seed)
    failed = commands.failed + frames.over_limit + frames.without_consent
    results = {
        "checked": commands.checked + frames.checked,
        "failed": failed,
        "commands": commands._asdict(),
        "frames": frames._asdict(),
    }
    publish(
        args,
        "bench faults",
        results,
        f"{commands.checked} commands, {commands.taken} taken: {commands.failed} beyond a limit; largest {commands.worst:.3f} of its limit",
        f"{frames.checked} frames, {frames.faults} changes of faults, {frames.trips} faults found, {frames.enabled} times enabled: "
        f"{frames.over_limit} torques beyond a limit, {frames.without_consent} times enabled without consent",
        seed=args.seed,
    )
    return 0 if failed == 0 else 1
