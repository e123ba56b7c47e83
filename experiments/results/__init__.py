"""Kept results of the experiments, one JSON file each, and the generator of the pages that show them."""
