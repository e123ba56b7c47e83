"""Run one node: ``python -m dexstack.nodes NAME``, followed by ROS arguments."""

import importlib
import sys

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"dexstack.nodes.{sys.argv.pop(1)}").main())
