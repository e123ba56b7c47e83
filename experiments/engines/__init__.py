"""Experiments that every engine takes part in."""
