"""Experiments of contact without intersection."""
