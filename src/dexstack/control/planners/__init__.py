"""Planners of the next few steps: one file each, behind :class:`dexstack.control.base.LocalPlanner`."""
