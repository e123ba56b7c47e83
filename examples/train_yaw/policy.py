"""A policy that turns an object about the vertical, as an ONNX model with 98 parameters.

Every joint follows a sine whose amplitude is proportional to the remaining turn, up to a third of a radian;
each direction of turning has its own offsets, sines, cosines and frequency.
"""

import numpy as np
import onnx

FEATURES = "time", "relative_rotation_vector"
MODEL = """<ir_version: 9, opset_import: ["" : 17]> yaw (float[1, 4] seen) => (float[1, 16] action)
<float[16] rest, float[4, 2] turns, float[4, 2] clock, float[6, 16] sines, float zero, float one> {
    remaining = MatMul (seen, turns)
    amplitude = Clip (remaining, zero, one)
    phase = MatMul (seen, clock)
    sine = Sin (phase)
    cosine = Cos (phase)
    a = Mul (amplitude, sine)
    b = Mul (amplitude, cosine)
    all = Concat <axis = 1> (amplitude, a, b)
    action = Gemm (all, sines, rest)
}"""


def policy(parameters: np.ndarray, rest: np.ndarray) -> onnx.ModelProto:
    """Return the model.

    Args:
        parameters: (2, 49) for both directions: offset, sine and cosine of 16 joints [rad], and the
            logarithm of the angular frequency relative to 6 rad/s.
        rest: (16,) joint positions without a remaining turn [rad].
    """
    turns, clock = np.zeros((4, 2)), np.zeros((4, 2))
    turns[3], clock[0] = (3.0, -3.0), 6.0 * np.exp(parameters[:, 48])
    sines = parameters[:, :48].reshape(2, 3, 16).swapaxes(0, 1).reshape(6, 16)
    model = onnx.parser.parse_model(MODEL)
    values = {"rest": rest, "turns": turns, "clock": clock, "sines": sines, "zero": 0.0, "one": 1.0}
    for name, value in values.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(value), name))
    return model
