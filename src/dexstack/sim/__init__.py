"""Closed loop in one process, without ROS."""
