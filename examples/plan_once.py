"""Plan once: joint targets for the present state, and the predicted motion."""

import math

import dexstack

planner = dexstack.Planner(task="palm_turn", object="cube", hand="right")

# The state: object pose and joint positions; contacts are detected.
observation = planner.start()
goal = planner.task.at_yaw(math.radians(45))

plan = planner.plan(observation, goal)
print(f"{plan.status.name}: cost {plan.cost:.2f}, {1e3 * plan.wall_s:.1f} ms")
for name, target in zip(planner.setup.robot.joint_names, plan.q_des, strict=True):
    print(f"  {name}: {target:+.3f} rad")
print("predicted object positions [mm]:", (1e3 * plan.prediction[:, :3]).round(1).tolist())

# Many states at once: from the same state towards eight goals.
goals = [planner.task.at_yaw(math.radians(angle)) for angle in range(-80, 81, 20) if angle]
batch = planner.plan_batch([observation] * len(goals), goals)
for goal, cost in zip(goals, batch.cost, strict=True):
    print(f"towards {goal.label}: cost {cost:.2f}")
