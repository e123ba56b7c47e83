"""Mutated files end in success or in one sentence: never in another exception, a hang, or a number that
is not finite."""

import importlib
import json
import signal
import sqlite3
from contextlib import contextmanager

import numpy as np
import pytest

from dexengines.errors import EngineError
from dexstack.bags.recordings import read_recording, read_run
from dexstack.cli.replay import draw
from dexstack.config import share_dir
from dexstack.errors import ConfigError
from dexstack.graph.settings import Spec, read_settings
from dexstack.learning.transitions import check_recording
from dexstack.model.description import data_dir
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from dexstack.onboarding.add_hand import HandWishes, add_hand
from dexstack.onboarding.add_object import Wishes, add_object
from dexstack.onboarding.repair import read_mesh, repair
from dexstack.perception.bundle import load_bundle
from dexstack.perception.calibration import load_mount
from dexstack.perception.camera import CameraModel
from dexstack.tasks.base import read_world
from dexstack.trials.judging import read_protocol
from tests import mutations
from tests.dexstack.onboarding import broken, broken_robot

pytestmark = pytest.mark.slow
SECONDS = 15.0
"""Processor time of a file [s]; the slowest takes 7."""
HANDS, OBJECTS = data_dir() / "hands", data_dir() / "objects"
SAMPLES = 40


class Hang(BaseException):
    """A file took more than :data:`SECONDS`."""


@contextmanager
def limited():
    def late(number, frame):
        raise Hang

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def fault(load, *args):
    """What is wrong with the end of a load; None if nothing is."""
    try:
        with limited():
            arrays = load(*args)
    except (ConfigError, EngineError) as error:
        text = str(error)
        return None if len(text) > 10 and "\n" not in text else f"not one sentence: {text!r}"
    except Hang:
        return f"takes more than {SECONDS:g} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if all(np.isfinite(np.asarray(x, float)).all() for x in arrays) else "not finite"


# --- one kind of file each: writes the mutation of a seed and loads it; returns numbers of the result ---


def mesh(folder, seed):
    body = repair(read_mesh(broken.write(folder, seed))).mesh
    return body.vertices, [body.volume], body.moment_inertia


def added_mesh(folder, seed):
    rng = np.random.default_rng(seed)
    good = broken.good(rng)
    if not good.is_convex:
        good = good.convex_hull
    path = folder / f"thing{('.stl', '.obj', '.ply')[seed % 3]}"
    good.export(path)
    mutations.write(path, path.read_bytes(), rng, text=path.suffix == ".obj")
    added = add_object(path, folder / "made", Wishes("thing", consent=True))
    return load_object(added.yaml).inertia, added.obj.start("allegro").pose_WO, [added.report.part_error]


def robot(folder, seed):
    file = broken_robot.write(folder, seed)
    hand = add_hand(file, folder / "made", HandWishes("hand", effort=0.5 if seed % 2 else None)).hand
    return hand.home, hand.p_WP, hand.quat_WP, [hand.fingertip_radius]


def of_text(path, load):
    """A kind whose mutations are those of a text file."""

    def made(folder, seed):
        rng = np.random.default_rng([seed, len(path.name)])
        return load(mutations.write(folder / path.name, path.read_bytes(), rng, text=True))

    return made


def parameters(path):
    settings = read_settings(Spec(files=(str(path),)))
    return [x for block in settings.values() for x in vars(block).values() if isinstance(x, float)]


def object_yaml(path):
    mesh = path.with_suffix(".obj")
    if not mesh.exists():
        mesh.write_bytes((OBJECTS / path.stem / mesh.name).read_bytes())
    obj = load_object(path)
    return obj.inertia, obj.size, obj.friction, *(start.pose_WO for start in obj.starts.values())


def hand_yaml(path):
    (path.parent / "allegro_v4_right.urdf").write_bytes((HANDS / "allegro_v4_right.urdf").read_bytes())
    return hand_numbers(load_hand(path))


def hand_urdf(path):
    (path.parent / "allegro_v4_right.yaml").write_bytes((HANDS / "allegro_v4_right.yaml").read_bytes())
    return hand_numbers(load_hand(path.with_suffix(".yaml")))


def hand_numbers(hand):
    return hand.home, hand.lower, hand.upper, hand.p_WP, *(b.inertia for b in hand.bodies)


def cube_mesh(path):
    text = (OBJECTS / "cube" / "cube.yaml").read_text()
    (path.parent / "cube.yaml").write_text(text)
    return object_yaml(path.parent / "cube.yaml")


def protocol(path):
    read = read_protocol(path)
    return ([len(list(read.cells("", "cube", "right")))],)


def world(path):
    return ([float(x) for x in vars(read_world(path)).values()],)


def bundle(path):
    return [x for tag in load_bundle(path).tags.values() for x in (tag.X_OT.pose, [tag.edge])]


def mount(path):
    return (load_mount(path, load_hand("right")).pose,)


def recorded():
    """Arrays of a run of the cube in the right hand."""
    hand, start = load_hand("right"), load_object("cube").start("allegro").pose_WO
    t = 0.033 * np.arange(SAMPLES)
    rest = np.tile(hand.home, (SAMPLES, 1))
    summary = {"task": "palm_turn", "object": "cube", "hand": "right", "phase": "reached", "goal": "+45°"}
    return {
        "summary": np.array(json.dumps(summary)),
        "t": t,
        "pose_WO": np.tile(start, (SAMPLES, 1)),
        "goal_WO": np.tile(start, (SAMPLES, 1)),
        "q": rest,
        "q_command": rest,
        "error": np.linspace(0.8, 0.1, SAMPLES),
        "position_error": np.zeros(SAMPLES),
        "status": np.zeros(SAMPLES, int),
        "contacts": np.full(SAMPLES, 4),
        "detect_s": np.full(SAMPLES, 1e-4),
        "solve_s": np.full(SAMPLES, 1e-3),
        "latency": np.full(SAMPLES, 0.03),
        "solve_t": t,
        "solve_wall_s": np.full(SAMPLES, 0.03),
    }


def archive(folder, seed):
    """The arrays of a recording, of other shapes, types and values, and its bytes."""
    rng, arrays = np.random.default_rng(seed), recorded()
    path = folder / "recording.npz"
    for _ in range(1 + rng.integers(3)):
        name = str(rng.choice(list(arrays)))
        old = np.atleast_1d(arrays[name])
        if name == "summary":
            arrays[name] = np.array(mutations.of_text(str(old[0]), rng))
            continue
        changed = np.array(recorded()[name], float)
        changed.flat[rng.integers(changed.size, size=3)] = rng.choice([np.nan, np.inf, -1e30, 0.0])
        arrays[name] = (changed, old[: rng.integers(SAMPLES)], old.T, old[..., None], old.astype(str))[
            rng.integers(5)
        ]
        if rng.random() < 0.2:
            del arrays[name]
            arrays.setdefault("summary", np.array("{}"))
    np.savez(path, **arrays)
    if rng.random() < 0.3:
        path.write_bytes(mutations.of_bytes(path.read_bytes(), rng))
    run = read_run(path)
    draw(run, folder / "run.png", None)
    check_recording(run.arrays, 16, str(path))
    return ()


@pytest.fixture(scope="session")
def good_bag(tmp_path_factory):
    """A bag of poses, joint states and commands."""
    pytest.importorskip("rclpy", reason="message definitions come with ROS 2 or the extra 'ros'")
    bags = importlib.import_module("tests.dexstack.bags.test_file")
    rows = [("/n/rollout/state", 0.0, bags.state(0.0, "running"))]
    for k in range(SAMPLES):
        t = 0.01 * k
        rows += [
            ("/n/joint_states", t, bags.joints(t, 1.0, 2.0)),
            ("/n/joint_command", t, bags.joints(t, 1.0, 2.0)),
            ("/n/object_pose", t, bags.pose(t)),
        ]
    path = tmp_path_factory.mktemp("bag") / "good.mcap"
    bags.write(path, rows)
    return path.read_bytes()


def bag(folder, seed, good):
    path = folder / "a.mcap"
    path.write_bytes(mutations.of_bytes(good, np.random.default_rng(seed)))
    return list(read_recording(path, ("a", "b")).values())


def sqlite_bag(folder, seed):
    path = folder / "bag" / "bag_0.db3"
    path.parent.mkdir()
    with sqlite3.connect(path) as base:
        base.execute("create table messages (id integer primary key, data blob)")
    base.close()
    rng = np.random.default_rng(seed)
    path.write_bytes(mutations.of_bytes(path.read_bytes(), rng) if seed else path.read_bytes())
    (path.parent / "metadata.yaml").write_text("rosbag2_bagfile_information: {}\n")
    return list(read_recording(path.parent if seed % 2 else path, ("a", "b")).values())


def camera(folder, seed):
    """A message's fields; those of a fixed size stay of that size."""
    rng = np.random.default_rng(seed)
    k = np.array([600.0, 0, 319.5, 0, 600, 239.5, 0, 0, 1])
    d = 0.1 * rng.normal(size=rng.choice([0, 4, 5, 8, 12, 14])) * rng.integers(2)
    size = [640, 480]
    model = str(rng.choice(["plumb_bob", "rational_polynomial", "", "equidistant", "inverse_brown", "a\nb"]))
    extreme = rng.choice([np.nan, np.inf, -np.inf, 0.0, -600.0, 1e308, 1e-300, 1.0])
    for _ in range(1 + rng.integers(2)):
        kind = rng.integers(4)
        if kind == 0:
            k[rng.integers(9)] = extreme
        elif kind == 1 and len(d):
            d[rng.integers(len(d))] = extreme
        elif kind == 2:
            k = k.reshape(3, 3).T.ravel()
        else:
            size[rng.integers(2)] = int(rng.choice([0, 1, 15, 4096, 2**32 - 1]))
    made = CameraModel.of_info(*size, model, d, k)
    made.check_topic("/camera/image_rect")
    centre = np.array([[made.K[0, 2], made.K[1, 2]]])
    return made.K, made.distortion, made.normalised(centre), made.project(np.array([[0.0, 0.0, 1.0]]))


PALM_TURN = share_dir() / "config" / "palm_turn.yaml"
WORLD = "mass: 1.2\nfriction: 0.8\nsize: 1.02\njoint_friction: 0.01\ncom_x: -0.002\n"
MOUNT = (
    "position: [0.1, 0.02, 0.4]\nquaternion: [0.7, 0.0, 0.7, 0.1]\nreprojection_px: 0.2\npictures: 20\n"
    "camera: {width: 640, height: 480}\n"
)
KINDS = {
    "meshes": (40, mesh),
    "added meshes": (10, added_mesh),
    "robots": (40, robot),
    "parameters": (40, of_text(PALM_TURN, parameters)),
    "objects": (25, of_text(OBJECTS / "stick" / "stick.yaml", object_yaml)),
    "meshes of objects": (15, of_text(OBJECTS / "cube" / "cube.obj", cube_mesh)),
    "hands": (25, of_text(HANDS / "allegro_v4_right.yaml", hand_yaml)),
    "URDFs of hands": (25, of_text(HANDS / "allegro_v4_right.urdf", hand_urdf)),
    "protocols": (15, of_text(share_dir() / "config" / "judge.yaml", protocol)),
    "tags": (15, of_text(HANDS / "base_tags.yaml", bundle)),
    "recordings": (20, archive),
    "SQLite bags": (6, sqlite_bag),
    "camera infos": (60, camera),
}


def faults(folder, count, load):
    found = {}
    for seed in range(count):
        own = folder / str(seed)
        own.mkdir()
        if wrong := fault(load, own, seed):
            found[seed] = wrong
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_mutated_files_end_in_success_or_a_sentence(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert faults(tmp_path, *KINDS[kind]) == {}


@pytest.mark.parametrize(
    ("name", "text", "load"), [("world.yaml", WORLD, world), ("mount.yaml", MOUNT, mount)]
)
def test_mutated_measurements_end_in_success_or_a_sentence(name, text, load, tmp_path):
    good = tmp_path / name
    good.write_text(text)
    assert faults(tmp_path, 15, of_text(good, load)) == {}


def test_mutated_bags_end_in_success_or_a_sentence(tmp_path, good_bag):
    assert faults(tmp_path, 30, lambda folder, seed: bag(folder, seed, good_bag)) == {}
