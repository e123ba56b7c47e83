"""Translation of a JAX function of a few vectors into CasADi expressions, so that IPOPT minimises the
cost that a task defines in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from dexstack.errors import ConfigError


def symbolic(function: Callable[..., Any], *arguments: np.ndarray) -> np.ndarray:
    """Return the result of ``function``, one array, for arguments whose entries are CasADi expressions or
    numbers.

    Args:
        function: traceable by JAX, without branches on its arguments.
        arguments: arrays of objects with the shapes of the function.

    Raises:
        ConfigError: the function needs an operation that is not in :data:`OPERATIONS`.
    """
    traced = jax.make_jaxpr(function)(*(np.zeros(np.shape(a), np.float32) for a in arguments))
    (result,) = _evaluate(traced, [np.asarray(a, object) for a in arguments])
    return result


def _evaluate(closed: ClosedJaxpr, arguments: list[np.ndarray]) -> list[np.ndarray]:
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.constvars, (np.asarray(c, object) for c in closed.consts), strict=True))
    known |= dict(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        inputs = [np.asarray(v.val, object) if isinstance(v, Literal) else known[v] for v in equation.invars]
        name = equation.primitive.name
        if name in ("jit", "pjit", "closed_call", "custom_jvp_call"):
            inner = equation.params.get("jaxpr") or equation.params["call_jaxpr"]
            outputs = _evaluate(inner, inputs)
        elif name in OPERATIONS:
            outputs = [np.asarray(OPERATIONS[name](equation.params, *inputs), object)]
        else:
            raise ConfigError(
                f"the cost uses '{name}', which experiments.contactsdf.symbolic cannot translate for CasADi"
            )
        known |= dict(zip(equation.outvars, outputs, strict=True))
    return [np.asarray(v.val, object) if isinstance(v, Literal) else known[v] for v in jaxpr.outvars]


def _spread(params: dict[str, Any], x: np.ndarray) -> np.ndarray:
    shape = params["shape"]
    own = [1] * len(shape)
    for axis, size in zip(params["broadcast_dimensions"], x.shape, strict=True):
        own[axis] = size
    return np.broadcast_to(x.reshape(own), shape)


def _cut(params: dict[str, Any], x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    return x[
        tuple(
            slice(*bounds)
            for bounds in zip(params["start_indices"], params["limit_indices"], strides, strict=True)
        )
    ]


def _contract(params: dict[str, Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (over_a, over_b), (batch, _) = params["dimension_numbers"]
    if batch:
        raise ConfigError("a cost with batched products cannot be translated for CasADi")
    return np.tensordot(a, b, axes=(over_a, over_b))


def _each(name: str) -> Callable[..., np.ndarray]:
    """Return an elementary function of numbers or expressions, applied entry by entry."""

    def of(x: Any) -> Any:
        return getattr(x, name)() if hasattr(x, name) else getattr(np, name)(float(x))

    return lambda params, x: np.frompyfunc(of, 1, 1)(x)


def _each_two(name: str) -> Callable[..., np.ndarray]:
    """Return CasADi's function of two numbers or expressions, applied pair by pair."""

    def of(x: Any, y: Any) -> Any:
        import casadi

        return getattr(casadi, name)(x, y)

    return lambda params, x, y: np.frompyfunc(of, 2, 1)(x, y)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda params, a, b: a + b,
    "sub": lambda params, a, b: a - b,
    "mul": lambda params, a, b: a * b,
    "div": lambda params, a, b: a / b,
    "min": _each_two("fmin"),
    "max": _each_two("fmax"),
    "neg": lambda params, a: -a,
    "integer_pow": lambda params, a: a ** params["y"],
    "square": lambda params, a: a * a,
    "sqrt": _each("sqrt"),
    "exp": _each("exp"),
    "log": _each("log"),
    "sin": _each("sin"),
    "cos": _each("cos"),
    "tanh": _each("tanh"),
    "reduce_sum": lambda params, a: a.sum(axis=tuple(params["axes"])),
    "dot_general": _contract,
    "concatenate": lambda params, *parts: np.concatenate(parts, axis=params["dimension"]),
    "broadcast_in_dim": _spread,
    "reshape": lambda params, a: a.reshape(params["new_sizes"]),
    "squeeze": lambda params, a: a.squeeze(axis=tuple(params["dimensions"])),
    "slice": _cut,
    "transpose": lambda params, a: a.transpose(params["permutation"]),
    "convert_element_type": lambda params, a: a,
    "copy": lambda params, a: a,
}
"""Translations by the names of JAX's primitives."""
