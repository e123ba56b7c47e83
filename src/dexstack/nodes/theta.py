"""θ as a message: one JSON object in a latched std_msgs/String, with the conditions it was learned for.

Keys: object, hand, model, step [s], theta {name: number or numbers, see
:class:`dexstack.control.problem.ModelParams`}, loss, transitions, updates. The number of updates is
the version, which ``mpc/theta_version`` names once the planner uses it; 0 is the planner's first θ.
"""

from __future__ import annotations

import json
from typing import Any

from std_msgs.msg import String

from dexstack.control.problem import ModelParams
from dexstack.control.theta import check_theta
from dexstack.errors import ConfigError
from dexstack.nodes.wire import BadMessage

THETA_TOPIC, VERSION_TOPIC = "learner/theta", "mpc/theta_version"


def theta_message(theta: ModelParams, **about: Any) -> String:
    """Return a message of θ and the conditions it was learned for."""
    numbers = {name: value.tolist() for name, value in theta._asdict().items()}
    return String(data=json.dumps({**about, "theta": numbers}))


class ThetaReader:
    """Decoder of θ that accepts one object, hand, time step [s] and number of joints."""

    def __init__(self, obj: str, hand: str, step: float, joints: int) -> None:
        self._wanted = {"object": obj, "hand": hand, "step": step}
        self._joints = joints

    def __call__(self, message: String) -> tuple[ModelParams, int]:
        """Return θ and its version."""
        try:
            document = json.loads(message.data)
            for key, wanted in self._wanted.items():
                if document[key] != wanted:
                    raise BadMessage(
                        f"θ was learned for the {key} {str(document[key])[:40]!r}, not for {wanted!r}"
                    )
            theta = ModelParams(**{name: document["theta"][name] for name in ModelParams._fields})
            version = document["updates"]
            if not isinstance(version, int) or not 0 <= version < 2**32:
                raise BadMessage(f"the number of updates is {str(version)[:40]}")
            return check_theta(theta, self._joints, "θ"), version
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise BadMessage(f"not a θ ({type(error).__name__})") from None
        except ConfigError as error:
            raise BadMessage(str(error)) from None
