"""`/admin/v1/faults`: only on an engine that was started with faults, only for admins."""

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from contract.admin import FaultInjection, FaultState
from engine.errors import NotFoundError
from engine.server.admin.route import admin_router, answered, mutated, shown
from engine.server.answers import Answer, Ticket
from engine.server.auth import TokenBook
from engine.server.bodies import read_guard
from engine.server.core import FaultControl
from engine.server.governor import Governor
from engine.server.tokens import Role


@dataclass(frozen=True, slots=True)
class _Faults:
    control: FaultControl
    governor: Governor

    def state(self) -> FaultState:
        available = tuple(sorted(self.control.names))
        return FaultState(available=available, active=self.control.active())

    def check(self, name: str) -> None:
        if name not in self.control.names:
            known = sorted(self.control.names)
            raise NotFoundError(
                f"fault {name!r} is not enabled on this engine; use one of {', '.join(known)}",
                field="name", value=name, bound=known,
            )  # fmt: skip

    async def inject(self, body: FaultInjection, ticket: Ticket) -> Answer:
        self.check(body.name)
        await self.control.inject(body.name, body.params)
        return await self._stored(ticket)

    async def clear(self, name: str, ticket: Ticket) -> Answer:
        self.check(name)
        await self.control.clear(name)
        return await self._stored(ticket)

    async def _stored(self, ticket: Ticket) -> Answer:
        body = self.state().model_dump_json()
        answer = Answer(status=200, body=body, etag=self.governor.live.etag)
        await self.governor.store_answer(ticket, answer)
        return answer


def fault_routes(governor: Governor, book: TokenBook, control: FaultControl) -> APIRouter:
    """Start, stop and list faults; what a fault broke stays broken after it stops."""
    router = admin_router(book, Role.ADMIN)
    faults = _Faults(control, governor)

    @router.get("/faults")
    async def listed() -> Response:
        return shown(faults.state())

    @router.post("/faults")
    async def inject(request: Request) -> Response:
        return await mutated(request, governor, FaultInjection, faults.inject, any_generation=True)

    @router.delete("/faults")
    async def clear(request: Request, name: str) -> Response:
        guard = read_guard(request, b"")
        answer = await governor.mutate(
            guard, lambda ticket: faults.clear(name, ticket), any_generation=True
        )
        return answered(answer)

    return router
