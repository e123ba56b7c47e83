"""Emulated hands that speak the protocols of the real ones."""
