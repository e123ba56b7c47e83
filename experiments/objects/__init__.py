"""Objects that nobody tuned for."""
