"""Rollouts of many plans with contacts that are detected again at every step, compiled by numba.

Importing this package needs numba (extra ``engines``); see :mod:`dexstack.control.rollout.rollout`.
"""

from dexstack.process.kernels import keep_kernels

keep_kernels(__name__)
