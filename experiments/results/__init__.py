"""Results of the experiments: one JSON file each, committed, and what makes pages of them (``python
-m experiments.results``)."""
