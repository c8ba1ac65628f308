"""The admin APIs of all configured engines: one client each, made when first asked for."""

import threading

from controlplane.actuator.dry_run_admin import DryRunAdmin
from controlplane.actuator.http_engine_admin import HttpEngineAdmin
from controlplane.auth.engines import EngineRegistry, RegisteredEngine
from controlplane.errors import ObserveOnlyError


class HttpEngineAdmins:
    """Clients by engine id; a changed address or token makes a new client."""

    def __init__(self, registry: EngineRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._clients: dict[str, tuple[RegisteredEngine, HttpEngineAdmin]] = {}

    def of(self, engine_id: str) -> HttpEngineAdmin:
        """The admin API of an engine.

        Raises:
            NotFoundError: the engine is not configured.
            ObserveOnlyError: it has none: it is read by its metrics only.
        """
        registered = self._registry.get(engine_id)
        if registered.kind.is_observed:
            raise ObserveOnlyError(
                f"engine {engine_id!r} is {registered.kind.why_observed}",
                field="engine_id", value=engine_id,
            )  # fmt: skip
        with self._lock:
            known = self._clients.get(engine_id)
            if known is not None and known[0] == registered:
                return known[1]
            if known is not None:
                known[1].close()
            admin = HttpEngineAdmin(engine_id, registered.url, registered.admin_token)
            self._clients[engine_id] = (registered, admin)
            return admin

    def shadow_of(self, engine_id: str) -> DryRunAdmin:
        """The same engine, with every change only validated."""
        return DryRunAdmin(self.of(engine_id))

    def close(self) -> None:
        """Close every client."""
        with self._lock:
            for _, admin in self._clients.values():
                admin.close()
            self._clients.clear()
