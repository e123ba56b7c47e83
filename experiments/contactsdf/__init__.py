"""The planner's experiments."""
