"""What a process asks of the machine: real-time scheduling, compilation caches, no orphans."""
