"""The contact detector against brute force over every query point, against coal, and with extreme
input."""

import coal
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.special import logsumexp

from dexstack.contact.contact import Contacts, empty_contacts
from dexstack.contact.detector import ContactDetector, DetectorParams
from dexstack.contact.query_points import robot_query_points
from dexstack.contact.support import SUPPORT_SLOTS
from dexstack.model.hand import load_hand
from dexstack.model.objects import load_object
from tests.dexstack.contact.peers import convex, distance
from tests.dexstack.geometry.planes import support_planes
from tests.dexstack.model import tree

PARAMS = DetectorParams()
IDENTITY = coal.Transform3s()


@pytest.fixture(scope="module")
def hand():
    return load_hand("right")


@pytest.fixture(scope="module", params=["cube", "stick"])
def obj(request):
    return load_object(request.param)


@pytest.fixture(scope="module")
def detector(hand, obj):
    return ContactDetector(hand, obj, PARAMS)


def body_poses(hand, q):
    """R_WB (17, 3, 3) and p_WB (17, 3) [m]."""
    R_WP, (R, p) = Rotation.from_quat(hand.quat_WP, scalar_first=True).as_matrix(), tree.body_poses(hand, q)
    return R_WP @ R, hand.p_WP + p @ R_WP.T


def states(hand, count, seed, reach=0.05):
    """Objects of random orientation in and around the hand; fingers anywhere within their limits, some in
    the home pose."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        quat = rng.normal(size=4)
        p = rng.uniform((-reach, -reach, 0.01), (0.12, reach, 0.1))
        yield (
            np.concatenate([p, quat / np.linalg.norm(quat)]),
            hand.home if k % 3 == 0 else rng.uniform(hand.lower, hand.upper),
        )


def distances(planes, pose_WO, p_W):
    """C-SDF of points, in numpy and float64."""
    R = Rotation.from_quat(pose_WO[3:], scalar_first=True).as_matrix()
    return (
        logsumexp(PARAMS.sigma * ((p_W - pose_WO[:3]) @ R @ planes.nhat_B[0].T + planes.offset[0]), axis=1)
        / PARAMS.sigma
    )


def test_finger_slots_hold_the_nearest_of_all_query_points(hand, detector):
    """At most two of each link, else the nearest of all; distance, link, point and normal belong
    together."""
    query = robot_query_points(hand, PARAMS.spacing)
    for pose, q in states(hand, 40, 0):
        R, p = body_poses(hand, q)
        p_WQ = p[query.body] + np.einsum("qij,qj->qi", R[query.body], query.p_BQ)
        phi = distances(detector.planes, pose, p_WQ) - query.radius
        nearest = [
            i
            for b in range(1, 17)
            for i in np.flatnonzero(query.body == b)[np.argsort(phi[query.body == b])[:2]]
        ]
        nearest = sorted(nearest, key=lambda i: phi[i])[: PARAMS.capacity - SUPPORT_SLOTS]
        found = Contacts(*(a[SUPPORT_SLOTS:] for a in detector.detect(pose, q)))
        np.testing.assert_allclose(found.phi, phi[nearest], atol=2e-6)
        apart = np.diff(phi[nearest], prepend=-1, append=1).clip(min=0)
        clear = (apart[1:] > 1e-5) & (apart[:-1] > 1e-5)  # equal distances may change places
        np.testing.assert_array_equal(found.link[clear], query.body[nearest][clear])
        np.testing.assert_array_equal(found.active, found.phi < PARAMS.margin)
        assert max(np.bincount(found.link)) <= 2 and found.link.min() >= 1
        # the point on the object plus distance (and radius) along the normal is the query point
        reach = (found.phi + query.radius[nearest])[:, None]
        np.testing.assert_allclose((found.p_W + reach * found.nhat_W)[clear], p_WQ[nearest][clear], atol=2e-6)


def test_normals_are_unit_and_outward(hand, detector):
    for pose, q in states(hand, 20, 1):
        found = detector.detect(pose, q)
        np.testing.assert_allclose(np.linalg.norm(found.nhat_W, axis=1), 1.0, atol=1e-5)
        nearer = distances(detector.planes, pose, found.p_W - 1e-3 * found.nhat_W)
        farther = distances(detector.planes, pose, found.p_W + 1e-3 * found.nhat_W)
        assert np.all(farther > nearer)


def test_the_set_has_its_capacity_and_its_types(hand):
    capacity = 6
    small = ContactDetector(hand, load_object("cube"), DetectorParams(capacity=capacity))
    found = small.detect(np.array([0, 0, 0.0393, 1, 0, 0, 0]), hand.home)
    assert [(a.shape, a.dtype, type(a)) for a in found] == [
        (a.shape, a.dtype, np.ndarray) for a in empty_contacts(capacity)
    ]
    assert np.all(np.isfinite(found.phi)) and np.count_nonzero(found.link == 0) == SUPPORT_SLOTS


def coal_shape(shape):
    if shape.kind == "box":
        return coal.Box(*(2 * np.asarray(shape.size)))
    return coal.Capsule(shape.size[0], 2 * shape.size[1])


def link_distance(hand, body, R, p, hull, pose):
    """Signed distance of one link's shapes to the object by coal."""
    X_WO = coal.Transform3s(Rotation.from_quat(pose[3:], scalar_first=True).as_matrix(), pose[:3])
    return min(
        distance(
            coal_shape(s),
            coal.Transform3s(R[body] @ np.asarray(s.R), p[body] + R[body] @ np.asarray(s.p)),
            hull,
            X_WO,
        )
        for s in hand.bodies[body].shapes
    )


def test_distances_of_links_agree_with_coal(hand, obj, detector):
    """Query points overestimate the distance by no more than their spacing allows, and never
    underestimate it."""
    hull, query = convex(obj.mesh), robot_query_points(hand, PARAMS.spacing)
    error = []
    for pose, q in states(hand, 60, 3):
        R, p = body_poses(hand, q)
        for body in range(1, 17):
            theirs = link_distance(hand, body, R, p, hull, pose)
            if 0.0 < theirs < PARAMS.margin:
                on = query.body == body
                ours = np.min(
                    distances(detector.planes, pose, p[body] + query.p_BQ[on] @ R[body].T) - query.radius[on]
                )
                error.append(ours - theirs)
    error = np.array(error)
    assert error.size > 50
    assert error.min() > -1.1 * support_planes(obj.mesh, PARAMS.num_planes).distance_error
    assert error.max() < PARAMS.spacing / np.sqrt(2) + 3e-4  # a corner in the middle of four points
    assert abs(error.mean()) < 1e-3


def test_the_palm_always_has_a_slot(hand, obj, detector):
    """Wherever the object touches the palm, a palm slot has its distance, independent of the fingers."""
    hull, rng, error = convex(obj.mesh), np.random.default_rng(4), []
    for _ in range(150):
        q = rng.uniform(hand.lower, hand.upper)
        R, p = body_poses(hand, q)
        tilt = Rotation.from_rotvec(np.append(rng.uniform(-0.2, 0.2, 2), 0.0)) * Rotation.from_rotvec(
            [0, 0, rng.uniform(-np.pi, np.pi)]
        )
        corners = tilt.apply(obj.mesh.vertices)
        height = 0.0113 - corners[:, 2].min() + rng.uniform(0.0, 0.01)
        pose = np.concatenate(
            [[rng.uniform(-0.04, 0.0), rng.uniform(-0.04, 0.04), height], tilt.as_quat(scalar_first=True)]
        )
        theirs = link_distance(hand, 0, R, p, hull, pose)
        found = Contacts(*(a[:SUPPORT_SLOTS] for a in detector.detect(pose, q)))
        assert np.all(found.link == 0)
        if theirs < 0.01:
            assert found.active.any()
            error.append(found.phi[found.active].min() - theirs)
    error = np.array(error)
    assert error.size > 100
    assert error.min() > -2e-3 and error.max() < 4e-3


def test_a_resting_object_is_supported_on_all_sides(hand):
    """Four palm contacts of a cube in the middle of the palm span its footprint on that palm, each
    about at zero distance."""
    cube = load_object("cube")
    found = ContactDetector(hand, cube, PARAMS).detect(np.array([-0.02, 0.0, 0.0393, 1, 0, 0, 0]), hand.home)
    palm = Contacts(*(a[:SUPPORT_SLOTS] for a in found))
    assert palm.active.all()
    np.testing.assert_allclose(palm.phi, 0.0, atol=3e-4)
    np.testing.assert_allclose(palm.nhat_W, np.tile([0.0, 0.0, -1.0], (SUPPORT_SLOTS, 1)), atol=0.02)
    spread = palm.p_W.max(axis=0) - palm.p_W.min(axis=0)
    assert spread[1] > 0.045 and spread[0] > 0.035


def test_far_away_nothing_is_active_and_nothing_is_nan(hand, detector):
    for p in ([10.0, 0, 0], [0, -3.0, 0.5], [1e4, 1e4, 1e4]):
        found = detector.detect(np.array([*p, 1, 0, 0, 0]), hand.home)
        assert not found.active.any()
        assert all(np.all(np.isfinite(a)) for a in found[:3])


@pytest.mark.parametrize(
    "quat", [(1, 0, 0, 0), (0, 0, 0, 0), (3, -4, 0, 12), (1e-12, 0, 0, 0), (0.5, 0.5, 0.5, 0.5)]
)
def test_no_nan_deep_inside_or_for_any_quaternion(hand, detector, quat):
    """The object's centre on a query point, on the palm's centre, at the origin; the length of the quaternion
    does not matter."""
    R, p = body_poses(hand, hand.home)
    for centre in (np.zeros(3), p[0] + R[0] @ np.asarray(hand.bodies[0].shapes[0].p), p[6], p[16]):
        found = detector.detect(np.concatenate([centre, quat]), hand.home)
        assert all(np.all(np.isfinite(a)) for a in found[:3])
        longer = detector.detect(np.concatenate([centre, -2.5 * np.array(quat)]), hand.home)
        np.testing.assert_allclose(found.phi, longer.phi, atol=2e-6)


def test_it_is_compiled_once(hand, detector, compilations):
    detector.detect(*next(states(hand, 1, 7)))
    before = len(compilations)
    for pose, q in states(hand, 5, 7):
        detector.detect(pose.astype(np.float32), q)
    assert len(compilations) == before
