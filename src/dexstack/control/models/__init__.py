"""Time-stepping models: one file each, behind :class:`dexstack.control.models.base.StepModel`."""
