"""Measurements of the parts, one module each, behind ``dexstack bench``."""
