"""Graph of nodes of each mode, its arguments, and its launch."""
