"""What routes and pages reach the actuator through; lives in `app.state.governance`."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from controlplane.actuator.groups import Groups
from controlplane.actuator.halts import Halts
from controlplane.actuator.operations import Operations
from controlplane.actuator.ports import EngineAdmins
from controlplane.actuator.readback import Readback
from controlplane.clock import Clock
from controlplane.db.database import Database


@dataclass(frozen=True, slots=True)
class Governance:
    """The operator's side of acting.

    Attributes:
        operations: approve, abort, roll back, what-if, mark good.
        halts: freeze and thaw.
        readback: what engines last said of themselves.
        default_policy: name of the policy of engines that nothing is assigned to.
        why_unread: why an observe-only engine's metrics could not be read last; empty when they
            were, or where this process does not read them.
    """

    database: Database
    clock: Clock
    admins: EngineAdmins
    groups: Groups
    operations: Operations
    halts: Halts
    readback: Readback
    default_policy: str
    why_unread: Callable[[str], str]


def governance_of(request: Request) -> Governance:
    """The governance of the application that a request came to: a FastAPI dependency."""
    governance: Governance = request.app.state.governance
    return governance
