"""``dexstack bench``: measure whether this machine is fast enough for the stack."""

SUBCOMMANDS = ("mpc", "hand", "pose-estimator")
