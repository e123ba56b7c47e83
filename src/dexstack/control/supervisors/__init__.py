"""What watches a planner and takes over where the planner alone would get stuck: one file each."""
