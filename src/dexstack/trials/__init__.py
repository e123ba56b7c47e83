"""Many trials: over worlds and seeds, on processes and machines; and those that are kept."""
