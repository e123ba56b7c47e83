"""Objects without tuned parameters."""
