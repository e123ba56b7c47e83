"""What proves: one folder per paper, one file per figure or table."""
