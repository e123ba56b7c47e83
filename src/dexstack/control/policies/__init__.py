"""Trained policies: their observations, their file, and the planner that runs them."""
