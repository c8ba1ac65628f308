"""Which engines serve together: the configured group, else what the engine says, else itself."""

from controlplane.actuator.readback import Readback
from controlplane.auth.engines import EngineRegistry


class Groups:
    """EP groups of the configured engines."""

    def __init__(self, registry: EngineRegistry, readback: Readback) -> None:
        self._registry = registry
        self._readback = readback

    def group_of(self, engine_id: str) -> str:
        """The group of an engine.

        Raises:
            NotFoundError: the engine is not configured.
        """
        configured = self._registry.get(engine_id).group
        if configured:
            return configured
        known = self._readback.known(engine_id)
        said = known.capabilities.group if known is not None and known.capabilities else ""
        return said or engine_id

    def members(self, group: str) -> list[str]:
        """Engines of a group, by id."""
        return [e.engine_id for e in self._registry.all() if self.group_of(e.engine_id) == group]

    def everyone(self) -> list[str]:
        """Every configured engine, by id."""
        return [engine.engine_id for engine in self._registry.all()]
