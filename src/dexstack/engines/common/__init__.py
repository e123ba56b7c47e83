"""What all engines share: how a MuJoCo model is read, what is refused of it, the scene as users drive it, the plant, the contact report."""
