"""Gymnasium environments of the tasks; importing this package, or dexstack after gymnasium, registers
them.

``gymnasium.make("dexstack/Reorient-v0", hand="left", object="foambrick", plant="lcp")``; see
:class:`~dexstack.environments.hand.EnvOptions` for the arguments. ``gymnasium.make_vec`` runs many in
processes with ``vectorization_mode="async"``.
"""

from __future__ import annotations

import gymnasium

from dexstack.tasks import TASKS

IDS = {name: f"dexstack/{''.join(map(str.capitalize, name.split('_')))}-v0" for name in TASKS}
"""Task → name of its environment."""

for _task, _name in IDS.items():
    gymnasium.register(id=_name, entry_point="dexstack.environments.hand:HandEnv", kwargs={"task": _task})
