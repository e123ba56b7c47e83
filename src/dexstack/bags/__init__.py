"""Recordings of a graph's messages as MCAP files: written, read and cut into what the learner
needs, without ROS."""
