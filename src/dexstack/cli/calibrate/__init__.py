"""``dexstack calibrate``: calibrate hand, camera and tags, and save the result."""

SUBCOMMANDS = ("hand", "camera", "hand-eye", "tags", "sheet")
