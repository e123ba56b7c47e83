"""Set goals in a running graph and follow its progress: start `dexstack up sim --monitor yes` (or
hardware) in another terminal first.

Both must be in one ROS domain: `export ROS_DOMAIN_ID=7` in both terminals.
"""

import json
import math
import sys

import rclpy
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

yaws = [math.radians(float(text)) for text in sys.argv[1:]] or [0.7, -0.7]

rclpy.init()
node = rclpy.create_node("driver")
state: dict = {}
latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
node.create_subscription(
    String, "rollout/state", lambda message: state.update(json.loads(message.data)), latched
)
client = node.create_client(SetParameters, "task/set_parameters")
if not client.wait_for_service(timeout_sec=30.0):
    sys.exit("no task node in this ROS domain")

for yaw in yaws:
    attempt = state.get("attempt", 0)
    value = ParameterValue(type=ParameterType.PARAMETER_DOUBLE, double_value=yaw)
    request = SetParameters.Request(parameters=[Parameter(name="goal_yaw", value=value)])
    rclpy.spin_until_future_complete(node, client.call_async(request), timeout_sec=10.0)
    while state.get("attempt", 0) == attempt or state.get("phase") not in (
        "reached",
        "timeout",
        "dropped",
        "lost",
    ):
        rclpy.spin_once(node, timeout_sec=0.2)
    print(
        f"asked for {math.degrees(yaw):+.0f}°: {state['phase']}, "
        f"{state['error']:.3f} rad off after {state['elapsed']:.1f} s",
        flush=True,
    )

node.destroy_node()
rclpy.try_shutdown()
