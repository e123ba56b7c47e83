"""Experiments of smooth contact."""
