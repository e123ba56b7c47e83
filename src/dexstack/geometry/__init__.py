"""Rotations, meshes, support planes, convex parts, symmetry."""
