"""Recordings in the formats of learners."""
