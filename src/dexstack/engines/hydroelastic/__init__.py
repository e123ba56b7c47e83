"""Pressure field contact ("hydroelastic"): meshes with a pressure field, their contact surface, and what acts on it."""
