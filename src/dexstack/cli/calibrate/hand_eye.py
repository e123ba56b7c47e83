"""``dexstack calibrate hand-eye``: camera pose and joint zeros together, from tags on the moving
fingertips."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dexstack.cli.arguments import natural, positive_int
from dexstack.cli.hand_access import EMULATED, add_gravity_argument, add_hand_arguments, agreed, the_hand
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish, table

if TYPE_CHECKING:
    import numpy as np

    from dexstack.hand.driver import HandDriver
    from dexstack.perception.camera import CameraModel
    from dexstack.perception.hand_eye import HandEye, Look

STILL, REST = 0.003, 0.5
"""Joints that move by less than this [rad] for this time [s] are at rest; by then pictures taken
during the motion have arrived."""
PATIENCE = 6.0
"""Longest time to reach a posture and take its picture [s]."""

Camera = Callable[[], "tuple[np.ndarray, CameraModel] | None"]
"""Returns the newest grey picture since the last call; None without one."""


add_parser = command(
    "hand-eye",
    add_hand_arguments,
    add_gravity_argument,
    option("--serial", default="", help="serial number of the RealSense (default: the first one found)"),
    option("--postures", type=positive_int, default=60, metavar="N", help="number of pictures"),
    option("--seed", type=natural, default=0, metavar="S", help="seed of the postures"),
    option(
        "--output",
        type=Path,
        default=Path("camera_mount.yaml"),
        metavar="FILE",
        help="file for the camera's pose",
    ),
    option("--dry-run", action="store_true", help="measure, but save nothing"),
    option("--yes", action="store_true", help="do not ask before the hand moves"),
    help="camera pose and joint zeros together",
    description="Move the fingers, with the caps of `dexstack calibrate sheet --object fingertips`, to "
    "random postures, and solve pictures and joint angles for the camera's pose in the palm frame and "
    "the joints' zeros. Every second picture is held out for validation. Exit code 0 only if enough tags "
    "were seen, the held-out pictures agree, and the result was saved. With --interface emulated the "
    "pictures are simulated, with a camera pose drawn from the seed.",
)


def run(args: argparse.Namespace) -> int:
    """Move, measure and save.

    Returns:
        0 on success, 1 if the hand failed or the held-out pictures contradict the result.
    """
    from dexstack.perception import require_camera

    require_camera()
    import numpy as np

    from dexstack.hand.calibration import save_offsets
    from dexstack.hand.commissioning import check_commissioned
    from dexstack.hand.driver import HandDriver
    from dexstack.hand.link import HandFault
    from dexstack.hand.servo import ServoLaw
    from dexstack.model.gravity import GravityCompensation
    from dexstack.model.hand import load_hand
    from dexstack.perception.calibration import save_mount
    from dexstack.perception.hand_eye import calibrate_hand_eye, postures
    from dexstack.perception.se3 import difference

    hand = load_hand(args.hand)
    question = (
        "All fingers move while the camera watches. Is the hand free, with the caps on, and no one near?"
    )
    if not agreed(args, question):
        note("nothing was measured")
        return 1
    link = the_hand(args)
    # the emulated one has no weight
    weight = None if args.interface == EMULATED else GravityCompensation(hand, args.gravity)
    driver = HandDriver(link, ServoLaw(hand, gravity=weight))
    take, X_PC, close = _camera(args, hand, link)
    try:
        driver.ready()
        if args.interface != EMULATED:
            check_commissioned(args.calibration_dir, link.serial)
        driver.enable()
        looks, camera = _sweep(driver, postures(args.postures, np.random.default_rng(args.seed)), take)
    except HandFault as fault:
        note(f"{fault}\nTo fix: {fault.remedy}")
        return 1
    finally:
        driver.close()
        close()
    c = calibrate_hand_eye(looks, hand, camera)
    offsets = link.offsets + c.zeros
    results = _results(c, link.serial, offsets)
    if X_PC is not None:
        way = difference(c.X_PC, X_PC)
        results["true_error_mm"] = 1e3 * np.linalg.norm(way[:3])
        results["true_error_deg"] = np.degrees(np.linalg.norm(way[3:]))
    last = "Not saved: dry run."
    if c.trouble:
        last = f"Not saved: {c.trouble}."
    elif not args.dry_run:
        today, held_out = f"{datetime.now():%Y-%m-%d %H:%M}", np.radians(c.errors[1])
        kept = save_offsets(args.calibration_dir, link.serial, offsets, measured=today, held_out=held_out)
        save_mount(args.output, c, camera)
        results["files"] = [str(kept), str(args.output)]
        last = f"Saved in {kept} and {args.output}"
    publish(args, "calibrate hand-eye", results, _view(c, hand.joint_names, link.offsets), last)
    return 1 if c.trouble else 0


def _camera(args: argparse.Namespace, hand: Any, link: Any) -> tuple[Camera, Any, Callable[[], None]]:
    """Return a function that takes pictures, the camera's pose in the palm frame if known, and a
    function that stops the camera."""
    import cv2
    import numpy as np

    from dexstack.perception.camera_params import RealSenseParams
    from dexstack.perception.images import to_grey
    from dexstack.perception.realsense import RealSenseCamera
    from dexstack.perception.sources import fingertip_camera

    cv2.setNumThreads(1)
    if args.interface == EMULATED:
        simulated, X_PC = fingertip_camera(hand, args.seed)
        nowhere = np.array([0.0, 0.0, 50.0, 1.0, 0.0, 0.0, 0.0])

        def draw() -> tuple[np.ndarray, CameraModel]:
            picture = simulated.picture(link.computer.plant.joint_position, nowhere)
            return cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), simulated.camera

        return draw, X_PC, lambda: None
    real = RealSenseCamera(RealSenseParams(args.serial, 1280, 720))
    real.start()

    def take() -> tuple[np.ndarray, CameraModel] | None:
        if (frame := real.take(0.0)) is None:
            return None
        return to_grey(frame.data, frame.width, frame.height, frame.encoding), frame.camera

    return take, None, real.stop


def _sweep(driver: HandDriver, targets: np.ndarray, take: Camera) -> tuple[list[Look], CameraModel]:
    """Take a picture of every posture with the hand at rest.

    Raises:
        HandFault: the hand failed.
        ConfigError: it does not come to rest, or the camera sends no pictures.
    """
    import numpy as np

    from dexstack.errors import ConfigError
    from dexstack.perception.hand_eye import Look
    from dexstack.perception.tags import TagDetector

    detector, looks = TagDetector(decimate=1.0), []
    now = driver.link.computer.monotonic
    for target in targets:
        begin, moved_at, old, picture = now(), now(), None, None
        trace: list[np.ndarray] = []
        while picture is None:
            driver.command(target)
            turn = driver.turn(0.05)
            if driver.fault is not None:
                raise driver.fault
            if now() - begin > PATIENCE:
                raise ConfigError("the hand does not come to rest, or the camera sends no pictures")
            if turn is None:
                continue
            if not trace or np.abs(turn.feedback.q - trace[0]).max() > STILL:
                moved_at, trace = now(), []
            trace.append(turn.feedback.q)
            if now() - moved_at > REST:
                # the first picture may have been taken before the hand was at rest
                if old is None:
                    old = take()
                else:
                    picture = take()
        looks.append(Look(np.mean(trace, axis=0), detector.detect(picture[0])))
    return looks, picture[1]


def _results(c: HandEye, serial: str, offsets: np.ndarray) -> dict[str, Any]:
    mm, degrees = c.errors
    return {
        "serial": serial,
        "position": c.X_PC.p,
        "quaternion": c.X_PC.pose[3:],
        "zero_offsets": offsets,
        "pictures": c.pictures,
        "tags": c.seen,
        "reprojection_px": c.reprojection,
        "held_out_mm": mm,
        "held_out_deg": degrees,
        "files": [],
    }


def _view(c: HandEye, names: tuple[str, ...], old: np.ndarray) -> Any:
    mm, degrees = c.errors
    rows = [
        ("camera in the palm frame [m]", " ".join(f"{x:.4f}" for x in c.X_PC.p)),
        ("quaternion w x y z", " ".join(f"{x:.5f}" for x in c.X_PC.pose[3:])),
        ("reprojection error [px]", f"{c.reprojection:.3f}"),
        ("held out [mm, °]", f"{mm:.2f}, {degrees:.2f}"),
        *(
            (f"zero of {name}, before [rad]", f"{a + b:+.4f}, {a:+.4f}")
            for name, a, b in zip(names, old, c.zeros, strict=True)
        ),
    ]
    seen = ", ".join(f"{tag} in {n}" for tag, n in c.seen.items())
    return table(f"Camera and zeros from {c.pictures} pictures; tags: {seen}", ("", "value"), rows)
