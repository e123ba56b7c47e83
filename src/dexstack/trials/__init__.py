"""Batches of trials over worlds and seeds, on processes and machines, and files of their results."""
