"""The engines, for the rest of dexstack."""

from __future__ import annotations

from dexengines import load as load
from dexengines.batch import rollout as rollout
from dexengines.errors import EngineError as EngineError
from dexengines.files import mesh_path as mesh_path, read_model as read_model, repeated_name as repeated_name
from dexengines.scene import Scene as Scene, State as State
