"""Import of objects and hands from mesh, URDF and MJCF files."""
