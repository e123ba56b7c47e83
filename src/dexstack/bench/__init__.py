"""Measurements behind ``dexstack bench``."""
