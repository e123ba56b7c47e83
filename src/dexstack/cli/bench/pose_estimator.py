"""``dexstack bench pose-estimator``: processor time of the pose estimator per picture."""

from __future__ import annotations

import argparse
import time

from dexstack.cli.arguments import natural, number, positive
from dexstack.cli.cores import add_core_argument, one_core
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish
from dexstack.report.statistics import times

RATE = 30.0
"""Pictures per second of film."""


def _seconds(text: str) -> float:
    return number(text, float, lambda x: 1.0 <= x <= 600.0, "seconds from 1 to 600")


add_parser = command(
    "pose-estimator",
    option("--seconds", type=_seconds, default=10.0, metavar="S", help="length of the film at 30 Hz"),
    option("--noise", type=positive, default=2.0, metavar="SIGMA", help="pixel noise, of 255"),
    option(
        "--p99",
        type=positive,
        default=15e-3,
        metavar="S",
        help="largest 99th percentile for exit code 0",
    ),
    option("--seed", type=natural, default=0, metavar="S", help="seed of the noise"),
    add_core_argument,
    help="milliseconds per picture of the pose estimator",
    description="Measure the processor time from a picture to the object's pose, on one core, with "
    "simulated pictures of a cube that turns on the palm. Exit code 0 only if the limit is kept.",
)


def run(args: argparse.Namespace) -> int:
    """Run the measurement.

    Returns:
        0 if the limit was kept, otherwise 1.
    """
    from dexstack.perception import require_camera

    require_camera()
    with one_core(args.core) as core:
        note(f"core {core}: drawing {args.seconds * RATE:.0f} pictures and estimating the pose in each")
        seconds, found = _measure(int(args.seconds * RATE), args.noise, args.seed)
    spent = times(seconds)
    passed = spent["p99"] <= args.p99
    results = {
        "core": core,
        "frames": len(seconds),
        "without_pose": len(seconds) - found,
        "pose_s": {**spent, "max": max(seconds)},
        "limits_s": {"p99": args.p99},
        "passed": passed,
    }
    line = (
        f"{1e3 * spent['p50']:.1f} ms per picture (median), p99 {1e3 * spent['p99']:.1f} ms "
        f"(limit {1e3 * args.p99:g}): {'kept' if passed else 'not kept'}; "
        f"pose found in {found} of {len(seconds)} pictures"
    )
    publish(args, "bench pose-estimator", results, line, seed=args.seed)
    return 0 if passed else 1


def _measure(count: int, noise: float, seed: int) -> tuple[list[float], int]:
    """Return the processor time per picture [s], and the number of pictures with a pose."""
    import cv2
    import numpy as np

    from dexstack.geometry.rotations import quaternion_product, yaw_quaternion
    from dexstack.model.hand import load_hand
    from dexstack.model.objects import load_object
    from dexstack.perception.bundle import object_bundle
    from dexstack.perception.camera_params import MOUNT, EstimatorParams, SimulatedCameraParams
    from dexstack.perception.estimator import PoseEstimator
    from dexstack.perception.simulated import SimulatedCamera

    cv2.setNumThreads(1)
    obj, bundle, hand = load_object("cube"), object_bundle("cube"), load_hand()
    params = SimulatedCameraParams(pixel_noise=noise)
    camera = SimulatedCamera(hand, obj, bundle, params, MOUNT, seed=seed)
    estimator = PoseEstimator(bundle, params.camera, MOUNT, EstimatorParams())
    start = obj.start("allegro")
    seconds, found = [], 0
    for k in range(count):
        pose_WO = np.array(start.pose_WO, float)
        pose_WO[3:] = quaternion_product(yaw_quaternion(k / RATE), pose_WO[3:])
        grey = cv2.cvtColor(camera.picture(hand.home, pose_WO), cv2.COLOR_RGB2GRAY)
        begin = time.process_time()
        outcome = estimator.process(k / RATE, grey)
        seconds.append(time.process_time() - begin)
        found += outcome.estimate is not None
    return seconds, found
