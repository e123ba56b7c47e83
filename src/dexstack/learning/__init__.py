"""Learning of the planner's parameters θ from rollouts and recordings."""
