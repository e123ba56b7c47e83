"""``dexstack bench hydroelastic``: contact surfaces against Drake's answers and time, and against what must hold in any pose."""

from __future__ import annotations

import argparse
import math
from typing import Any

from dexstack.cli.cores import one_core
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.report.statistics import times
from dexstack.errors import ConfigError


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench hydroelastic``."""
    p = subparsers.add_parser(
        "hydroelastic",
        help="contact surfaces against Drake",
        description="Net force, torque and polygon count on the meshes and poses of a reference file, and the time of a query beside "
        "Drake's in the same process, on one core, poses taking turns. Exit code 0 only if every check holds and, where Drake "
        "is installed (extra 'peers'), the time limits are kept.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--reference", metavar="FILE", help="meshes, poses and Drake's answers (JSON)")
    what.add_argument("--fuzz", type=int, metavar="N", help="N random overlapping poses: finite, balanced, complete, continuous")
    what.add_argument("--convergence", action="store_true", help="error of the force of a sphere on a plane against its mesh size")
    what.add_argument(
        "--sinusoid", action="store_true", help="rigid sinusoids pressed into a layer, beside finite elements (Elandt et al., Fig. 6)"
    )
    p.add_argument("--rounds", type=int, default=200, metavar="N", help="times every pose is asked (--reference)")
    p.add_argument(
        "--mean-limit", type=float, default=0.12, metavar="X", help="largest geometric mean of our time over Drake's (--reference)"
    )
    p.add_argument("--case-limit", type=float, default=0.30, metavar="X", help="largest time over Drake's of one case (--reference)")
    p.add_argument(
        "--picture",
        metavar="FILE",
        help="draw the result as a PNG (--reference: field and contact surface of the last pose; --fuzz: force along four paths)",
    )
    p.add_argument("--core", type=int, metavar="K", help="core to run on (default: the last one this process may use)")
    p.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the random poses (--fuzz)")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run what was asked for.

    Returns:
        0 when every check held and every limit was kept, otherwise 1.
    """
    if args.rounds < 1 or args.seed < 0 or (args.fuzz is not None and args.fuzz < 1):
        raise ConfigError("--rounds and --fuzz must be at least 1 and --seed not negative")
    with one_core(args.core) as core:
        if args.reference:
            return _reference(args, core)
        if args.fuzz:
            return _fuzz(args)
        return _sinusoid(args) if args.sinusoid else _convergence(args)


def _reference(args: argparse.Namespace, core: int) -> int:
    import numpy as np

    from dexstack.engines.hydroelastic.surface import Workspace
    from experiments.hydroelastic.surfaces import check_answers, drake_version, read_reference, time_cases

    cases = read_reference(args.reference)
    version = drake_version()
    out = Workspace()
    note(f"core {core}: compiling the kernels")
    checks = check_answers(cases, out)
    note(f"{args.rounds} rounds over {sum(len(c.poses) for c in cases)} poses" + (f" beside Drake {version}" if version else ""))
    time_cases(cases, out, args.rounds, peer=version is not None)

    if args.picture:
        from pathlib import Path

        from dexstack.report.contact_patch import draw_contact
        from experiments.hydroelastic.surfaces import ask

        case = cases[-1]
        surface, sign = ask(case, case.poses[-1], out)
        draw_contact(Path(args.picture), case.a if sign > 0 else case.b, surface)

    rows, listed, ratios = [], [], []
    for case in cases:
        ours = float(np.median(case.ours_s))
        entry: dict[str, Any] = {"name": case.name, "poses": len(case.poses), "ours_s": times(case.ours_s)}
        peer = None if case.peer_s is None else float(np.median(case.peer_s))
        if peer is not None:
            ratios.append(ours / peer)
            entry |= {"peer_s": times(case.peer_s), "ratio": peer / ours}
        if case.peer_note:
            entry["note"] = case.peer_note
        listed.append(entry)
        rows.append([case.name, len(case.poses), 1e6 * ours, None if peer is None else 1e6 * peer, None if peer is None else ours / peer])
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios)) if ratios else None
    held = not any(check.failed for check in checks.values())
    fast = mean is None or (mean <= args.mean_limit and max(ratios) <= args.case_limit)
    results = {
        "core": core,
        "peer": {"name": "drake", "version": version},
        "cases": listed,
        "ratio": None if mean is None else 1 / mean,
        "limits": {"mean": 1 / args.mean_limit, "case": 1 / args.case_limit},
        "checks": {name: check.as_dict() for name, check in checks.items()},
        "passed": held and fast,
    }
    if mean is None:
        verdict = (
            "Drake is not installed (pip install 'dexstack[peers]')" if version is None else "Drake could build none of these bodies alike"
        )
        verdict += ": the comparison of times was skipped"
    else:
        verdict = (
            f"time over Drake's: geometric mean {mean:.3f} (limit {args.mean_limit:g}), "
            f"worst case {max(ratios):.3f} (limit {args.case_limit:g}): " + ("kept" if fast else "not kept")
        )
    publish(
        args,
        "bench hydroelastic",
        results,
        table(f"contact surface, core {core}", ("case", "poses", "ours µs", "Drake µs", "ours / Drake"), rows),
        _checks_table(checks),
        *(f"{case.name}: not compared, {case.peer_note}" for case in cases if case.peer_note),
        verdict,
        seed=None,
    )
    return 0 if results["passed"] else 1


def _checks_table(checks: dict[str, Any]) -> Any:
    rows = [[name, c.checked, c.failed, c.worst, c.tolerance] for name, c in checks.items()]
    return table("checks", ("check", "checked", "failed", "worst", "tolerance"), rows)


def _fuzz(args: argparse.Namespace) -> int:
    from pathlib import Path

    from experiments.hydroelastic.fuzz import draw_paths, fuzz

    step = max(1, args.fuzz // 20)
    checks = fuzz(args.fuzz, args.seed, lambda done: note(f"{done} of {args.fuzz} poses") if done % step == 0 else None)
    passed = not any(check.failed for check in checks.values())
    if args.picture:
        draw_paths(Path(args.picture), args.seed)
    results = {"poses": args.fuzz, "checks": {name: check.as_dict() for name, check in checks.items()}, "passed": passed}
    publish(args, "bench hydroelastic --fuzz", results, _checks_table(checks), seed=args.seed)
    return 0 if passed else 1


def _convergence(args: argparse.Namespace) -> int:
    from pathlib import Path

    from experiments.hydroelastic.checks import convergence, draw_convergence

    sizes = [0.02, 0.01, 0.005, 0.0025]
    errors, orders = convergence(sizes)
    passed = min(orders) > 1.8
    if args.picture:
        draw_convergence(Path(args.picture), sizes, errors)
    rows = [[s, e, o] for s, e, o in zip(sizes, errors, [None, *orders], strict=True)]
    results = {"mesh_size_m": sizes, "relative_error": errors, "order": orders, "passed": passed}
    publish(args, "bench hydroelastic --convergence", results, table("sphere on a plane", ("mesh size m", "relative error", "order"), rows))
    return 0 if passed else 1


def _sinusoid(args: argparse.Namespace) -> int:
    from pathlib import Path

    from experiments.hydroelastic.checks import AMPLITUDES, DEPTH, FEM_GAP, WAVELENGTH, draw_sinusoids, sinusoid_force
    from experiments.hydroelastic.fem import forces

    note("finite elements: a layer of a compressible solid at finite strain")
    elastic = [forces(amplitude, WAVELENGTH, DEPTH) for amplitude in AMPLITUDES]
    cases, rows = [], []
    for amplitude, (depths, fem) in zip(AMPLITUDES, elastic, strict=True):
        for i, (depth, layer) in enumerate(zip(depths.tolist(), fem.tolist(), strict=True)):
            force, exact = sinusoid_force(amplitude, depth)
            case = (amplitude, depth, force, exact, layer, 1 - force / layer)
            cases.append(dict(zip(("amplitude", "depth", "force", "closed_form", "finite_elements", "under"), case, strict=True)))
            if i % 2:
                rows.append(list(case))
    flat, steep = ([c for c in cases if c["amplitude"] == amplitude] for amplitude in (AMPLITUDES[0], AMPLITUDES[-1]))
    exact_to = max(abs(c["force"] - c["closed_form"]) for c in flat)
    deepest, within = steep[-1]["under"], [c["depth"] for c in steep if abs(c["under"]) <= FEM_GAP]
    passed = all(abs(c["force"] - c["closed_form"]) <= 2e-3 for c in cases) and exact_to <= 1e-9 and abs(deepest) <= FEM_GAP
    side, kept = "under" if deepest > 0 else "over", "kept" if abs(deepest) <= FEM_GAP else "not kept"
    if args.picture:
        draw_sinusoids(Path(args.picture), elastic)
    results = {
        "cases": cases,
        "limit": FEM_GAP,
        "flat_error": exact_to,
        "under_at_depth": deepest,
        "within_from_depth": min(within, default=None),
    }
    publish(
        args,
        "bench hydroelastic --sinusoid",
        {**results, "passed": passed},
        table(
            "force over that of the flat punch at depth 0.4",
            ("amplitude", "depth", "computed", "closed form", "finite elements", "under"),
            rows,
        ),
        f"amplitude 0: within {exact_to:.0e} of the exact force at every depth",
        f"amplitude {AMPLITUDES[-1]:g} at depth {DEPTH:g}, as in the paper: {abs(deepest):.1%} {side} our finite elements "
        f"(plane strain, ν = 0.3); limit {FEM_GAP:.0%}, by which the paper's field is under its own: {kept}",
        f"at smaller depths it is under them, by at most {FEM_GAP:.0%} from depth {min(within, default=math.nan):g} on and by up to "
        f"{max(c['under'] for c in steep):.0%} nearer to a point's contact",
    )
    return 0 if passed else 1
