"""Processes: real-time scheduling, caches, forks, time limits, orphans."""
