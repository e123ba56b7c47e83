"""``dexstack bench perception``: the object's pose from rendered pictures, against the truth."""

from __future__ import annotations

import argparse
import os
from typing import Any

from dexstack.cli.arguments import natural, positive, positive_int
from dexstack.cli.cores import one_core
from dexstack.cli.output import add_json_argument, note, publish, table
from dexstack.process.threads import XLA_ONE_THREAD
from dexstack.report.statistics import errors, times

RESOLUTIONS = {"640x480": (640, 480, 615.0), "1280x720": (1280, 720, 922.0)}
"""Columns, rows and focal length [px] of a D435i's colour camera."""
TWO_FACES = {"p50": (0.3, 0.3), "p95": (1.0, 1.0)}
"""Largest errors with two faces in view, 640x480 [mm, deg]."""
ONE_FACE = 3.0
"""Largest 95th percentile of the angle with one face in view [deg]."""
LONGEST = 0.015
"""Largest 99th percentile of the processor time per picture of the film [s]."""
TRIAL_SECONDS = 15.0
SUCCESS = 0.8
"""Smallest share of the trials that must succeed."""
HONEST = 0.9
"""Smallest share of the time that the normalised error must be within its 95 % bound."""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bench perception``."""
    p = subparsers.add_parser(
        "perception",
        help="the object's pose from rendered pictures, against the truth",
        description="Accuracy for a cube that stands still, then a film of the hand that turns it in which it is hidden at random; time "
        "per picture on one core. Exit code 0 only if all limits are kept.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    p.add_argument("--pictures", type=positive_int, default=300, metavar="N", help="pictures of the cube that stands still, per resolution")
    p.add_argument("--distance", type=positive, default=0.4, metavar="M", help="from the camera to that cube")
    p.add_argument("--noise", type=positive, default=2.0, metavar="SIGMA", help="pixel noise, of 255")
    p.add_argument("--seconds", type=natural, default=60, metavar="S", help="length of the film; 0: none")
    p.add_argument("--hidden", type=positive, default=0.3, metavar="SHARE", help="share of the film in which the cube is hidden")
    p.add_argument("--trials", type=natural, default=0, metavar="N", help="+90° trials through pictures, and as many with the true pose")
    p.add_argument("--delay", type=positive, default=0.03, metavar="S", help="from the exposure to the picture's arrival, in those trials")
    p.add_argument("--core", type=natural, metavar="K", help="core to run on (default: the last one this process may use)")
    p.add_argument("--seed", type=natural, default=0, metavar="S", help="draws poses, noise and occlusions")
    add_json_argument(p)


def run(args: argparse.Namespace) -> int:
    """Run it.

    Returns:
        0 when the limits were kept, otherwise 1.
    """
    from dexstack.perception import require_camera

    require_camera()
    for name, value in XLA_ONE_THREAD.items():
        os.environ.setdefault(name, value)
    with one_core(args.core):
        import cv2

        from dexstack.bench.perception import close_loop, manipulation, measure_static, measure_tracking
        from dexstack.perception.params import SimulatedCameraParams
        from dexstack.process.compilation import use_compilation_cache

        cv2.setNumThreads(1)
        results: dict[str, Any] = {"distance_m": args.distance, "pixel_noise": args.noise, "static": {}}
        rows = []
        for name, (width, height, focal) in RESOLUTIONS.items():
            note(f"{args.pictures} pictures at {name}")
            params = SimulatedCameraParams(image_width=width, image_height=height, focal_length=focal, pixel_noise=args.noise)
            r = measure_static(params, args.pictures, args.distance, args.seed)
            entry = {"two_faces": _summary(r.two_faces), "one_face": _summary(r.one_face), "unseen": r.unseen, "pose_s": times(r.seconds)}
            results["static"][name] = entry
            rows += [_row(f"{name} 2+", entry["two_faces"]), _row(f"{name} 1", entry["one_face"])]
        views = [
            table(f"Cube at {args.distance:g} m, noise {args.noise:g}; two faces or more (2+), the best alone (1)", COLUMNS, rows),
            _times_table(results["static"]),
        ]
        if args.seconds:
            use_compilation_cache()
            note(f"{args.seconds} s of the hand turning the cube: simulating, then filming")
            t = measure_tracking(
                manipulation(float(args.seconds), args.seed), SimulatedCameraParams(pixel_noise=args.noise), args.hidden, args.seed
            )
            results["film"] = film_results(t)
            views += [film_table(results["film"]), _film_line(results["film"])]
        if args.trials:
            use_compilation_cache()
            note(f"{args.trials} trials of {TRIAL_SECONDS:g} s through pictures, and as many with the true pose")
            params = SimulatedCameraParams(pixel_noise=args.noise, image_delay=args.delay)
            results["closed_loop"] = _closed_loop(close_loop(params, args.trials, TRIAL_SECONDS, args.seed))
            views.append(_closed_loop_line(results["closed_loop"]))
    kept = _kept(results)
    results["kept"], results["passed"] = kept, all(kept.values())
    verdict = "every limit kept" if results["passed"] else "not kept: " + ", ".join(name for name, ok in kept.items() if not ok)
    publish(args, "bench perception", results, *views, verdict, seed=args.seed)
    return 0 if results["passed"] else 1


COLUMNS = ("", "n", "p50 [mm]", "p95 [mm]", "p50 [deg]", "p95 [deg]", "e²/σ²", "in 95 %")


def _summary(e: Any) -> dict[str, Any]:
    import numpy as np

    from dexstack.bench.perception import CHI2_95

    def percentiles(x: Any) -> dict[str, float | None]:
        if not len(x):
            return {"p50": None, "p95": None, "max": None, "n": 0}
        p50, p95 = np.percentile(x, [50, 95])
        return {"p50": float(p50), "p95": float(p95), "max": float(x.max()), "n": len(x)}

    n = len(e.nees)
    return {
        "position_error_m": percentiles(e.shift),
        "orientation_error_rad": percentiles(e.turn),
        "normalised_error": float(e.nees.mean()) if n else None,
        "within_bound": float((e.nees < CHI2_95).mean()) if n else None,
    }


def _row(name: str, s: dict[str, Any]) -> list[Any]:
    import math

    p, o = s["position_error_m"], s["orientation_error_rad"]
    if not p["n"]:
        return [name, 0, *[None] * 6]
    shift, turn = (f"{1e3 * p[k]:.3f}" for k in ("p50", "p95")), (f"{math.degrees(o[k]):.3f}" for k in ("p50", "p95"))
    return [name, p["n"], *shift, *turn, f"{s['normalised_error']:.1f}", f"{100 * s['within_bound']:.1f} %"]


def _times_table(static: dict[str, Any]) -> Any:
    rows = [(name, *(f"{1e3 * entry['pose_s'][k]:.1f}" for k in ("p50", "p99"))) for name, entry in static.items()]
    return table("Processor time from the whole picture to the pose", ("", "p50 [ms]", "p99 [ms]"), rows)


def film_table(f: dict[str, Any]) -> Any:
    """Errors while the object was seen and while it was hidden."""
    return table("Film at 640x480", COLUMNS, [_row("seen", f["seen"]), _row("hidden", f["predicted"])])


def film_results(t: Any) -> dict[str, Any]:
    """What a film showed, for the JSON object."""
    import numpy as np

    from dexstack.bench.perception import CHI2_95

    nees = np.concatenate([t.seen.nees, t.predicted.nees])
    return {
        "frames": t.frames,
        "hidden": t.occluded,
        "without_pose": t.lost,
        "wrong_jumps": t.wrong_jumps,
        "seen": _summary(t.seen),
        "predicted": _summary(t.predicted),
        "within_bound": float((nees < CHI2_95).mean()) if len(nees) else 0.0,
        "pose_s": times(t.seconds),
    }


def _film_line(f: dict[str, Any]) -> str:
    return (
        f"{f['frames']} pictures, cube hidden in {f['hidden']}, no pose for {f['without_pose']}; {f['wrong_jumps']} wrong jumps; "
        f"normalised error within its 95 % bound {100 * f['within_bound']:.1f} % of the time; "
        f"{1e3 * f['pose_s']['p50']:.1f} ms per picture, "
        f"p99 {1e3 * f['pose_s']['p99']:.1f} ms"
    )


def _closed_loop(r: Any) -> dict[str, Any]:
    return {
        "success_rate": sum(r.reached) / len(r.reached),
        "truth_success_rate": sum(r.truth_reached) / len(r.truth_reached),
        "n": len(r.reached),
        "reached": r.reached,
        "reached_s": r.reached_s,
        "truth_reached_s": r.truth_reached_s,
        "orientation_error_rad": errors(r.orientation_error),
        "estimate_error_m": errors(r.shift),
        "estimate_error_rad": errors(r.turn),
    }


def _closed_loop_line(c: dict[str, Any]) -> str:
    import math

    import numpy as np

    def median(times_s: list[float]) -> str:
        reached = [t for t in times_s if np.isfinite(t)]
        return f"{np.median(reached):.1f} s" if reached else "never"

    through, truth = round(c["success_rate"] * c["n"]), round(c["truth_success_rate"] * c["n"])
    return (
        f"+90° through pictures: {through} of {c['n']} reached, median after {median(c['reached_s'])}; "
        f"with the true pose {truth} of {c['n']}, {median(c['truth_reached_s'])}. "
        f"Estimates off by {1e3 * c['estimate_error_m']['median']:.2f} mm, "
        f"{math.degrees(c['estimate_error_rad']['median']):.2f}° (median)"
    )


def _kept(results: dict[str, Any]) -> dict[str, bool]:
    import math

    def value(resolution: str, faces: str, k: str) -> tuple[float, float]:
        s = results["static"][resolution][faces]
        if not s["position_error_m"]["n"]:
            return math.inf, math.inf
        return 1e3 * s["position_error_m"][k], math.degrees(s["orientation_error_rad"][k])

    small, large = RESOLUTIONS
    kept = {}
    for k, limits in TWO_FACES.items():
        found = value(small, "two_faces", k)
        kept[f"two faces {k} (<= {limits[0]:g} mm, {limits[1]:g} deg)"] = all(f <= limit for f, limit in zip(found, limits, strict=True))
    kept[f"one face p95 (<= {ONE_FACE:g} deg)"] = value(small, "one_face", "p95")[1] <= ONE_FACE
    kept["1280x720 better"] = all(
        a < b
        for faces in ("two_faces", "one_face")
        for k in ("p50", "p95")
        for a, b in zip(value(large, faces, k), value(small, faces, k), strict=True)
    )
    if "closed_loop" in results:
        kept[f"+90° through pictures (>= {100 * SUCCESS:g} %)"] = results["closed_loop"]["success_rate"] >= SUCCESS
    if "film" in results:
        kept["no wrong jump"] = results["film"]["wrong_jumps"] == 0
        kept[f"time per picture p99 (<= {1e3 * LONGEST:g} ms)"] = results["film"]["pose_s"]["p99"] <= LONGEST
        kept[f"normalised error (>= {100 * HONEST:g} %)"] = results["film"]["within_bound"] >= HONEST
    return kept
