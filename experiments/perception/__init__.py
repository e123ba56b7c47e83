"""Experiments of the pose estimator."""
