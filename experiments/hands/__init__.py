"""Robot files of other hands."""
