"""The graph of nodes of each mode, its arguments, and how it is launched."""
