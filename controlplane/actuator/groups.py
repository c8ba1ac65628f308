"""Which engines serve together: the configured group, else what the engine says, else itself."""

from controlplane.actuator.readback import Readback
from controlplane.auth.engines import EngineRegistry, RegisteredEngine
from controlplane.engine_kind import EngineKind


class Groups:
    """EP groups of the configured engines."""

    def __init__(self, registry: EngineRegistry, readback: Readback) -> None:
        self._registry = registry
        self._readback = readback
        self._said: dict[str, str] = {}

    def group_of(self, engine_id: str) -> str:
        """The group of an engine.

        Raises:
            NotFoundError: the engine is not configured.
        """
        return self._group(self._registry.get(engine_id))

    def members(self, group: str) -> list[str]:
        """Engines of a group, by id."""
        return [e.engine_id for e in self._registry.all() if self._group(e) == group]

    def everyone(self) -> list[str]:
        """Every configured engine, by id."""
        return [engine.engine_id for engine in self._registry.all()]

    def urls(self) -> dict[str, str]:
        """Where every configured engine is, by id."""
        return {engine.engine_id: engine.url for engine in self._registry.all()}

    def governed(self) -> list[str]:
        """The configured engines that can be acted on, by id."""
        return [e.engine_id for e in self._registry.all() if not e.kind.is_observed]

    def kind_of(self, engine_id: str) -> EngineKind:
        """What an engine is.

        Raises:
            NotFoundError: the engine is not configured.
        """
        return self._registry.get(engine_id).kind

    def forget(self, engine_id: str) -> None:
        """An engine was removed: what it said of its group is over."""
        self._said.pop(engine_id, None)

    def _group(self, engine: RegisteredEngine) -> str:
        """What an engine says of its group is remembered: it is fixed when the engine starts."""
        if engine.group:
            return engine.group
        said = self._said.get(engine.engine_id)
        if said is None:
            known = self._readback.known(engine.engine_id)
            said = known.capabilities.group if known is not None and known.capabilities else ""
            if said:
                self._said[engine.engine_id] = said
        return said or engine.engine_id
