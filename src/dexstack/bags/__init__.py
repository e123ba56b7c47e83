"""Recordings of a graph's messages as MCAP files, written and read without ROS."""
