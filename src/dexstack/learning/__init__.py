"""What is learned from rollouts and recordings, and how."""
