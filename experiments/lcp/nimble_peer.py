"""The two balls in Nimble, run as a script by a Python with nimblephysics: prints the time of 20
steps forward and backward, the gradient, and its version.

Nimble needs numpy < 2 and so an environment of its own; only its compiled part is used, so that no
torch is timed.
"""

import json
import sys
import time
from importlib.metadata import version

import nimblephysics_libs._nimblephysics as nimble
import numpy as np


def measure(velocity_x: float, velocity_y: float, repetitions: int) -> None:
    """Time the balls and print the result as JSON."""
    world = nimble.simulation.World()
    world.setGravity([0.0, 0.0, 0.0])
    world.setTimeStep(0.01)
    for _ in range(2):
        ball = nimble.dynamics.Skeleton()
        _, body = ball.createTranslationalJoint2DAndBodyNodePair()
        body.createShapeNode(nimble.dynamics.SphereShape(0.05)).createCollisionAspect()
        body.setRestitutionCoeff(1.0)
        body.setFrictionCoeff(0.0)
        world.addSkeleton(ball)
    seconds = []
    for _ in range(repetitions):
        begin = time.process_time()
        world.setPositions(np.array([-0.4, 0.0, 0.0, 0.0]))
        world.setVelocities(np.array([velocity_x, velocity_y, 0.0, 0.0]))
        snapshots = [nimble.neural.forwardPass(world) for _ in range(20)]
        end = np.array(world.getPositions())
        gradient = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        for snapshot in reversed(snapshots):
            gradient = snapshot.backpropState(world, gradient).lossWrtState
        seconds.append(time.process_time() - begin)
    found = {"seconds": float(np.median(seconds)), "version": version("nimblephysics"), "end": end.tolist()}
    print(json.dumps(found | {"gradient": np.array(gradient)[4:6].tolist()}))


if __name__ == "__main__":
    measure(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
