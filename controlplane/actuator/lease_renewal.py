"""Keeps degradations alive on the engines: leases that run down are renewed.

A lease lets an engine restore a knob by itself when its governor is gone. While the governor lives
it renews, also without telemetry, but for an hour at most: then the engine goes back on its own.
"""

import logging
import secrets

from contract.admin import Cause, CauseKind, ConfigPut, ConfigState, Lease
from controlplane.actuator.engine_admin import Mutation
from controlplane.actuator.fence import Fence
from controlplane.actuator.ports import EngineAdmins
from controlplane.actuator.readback import KnownEngine
from controlplane.actuator.requests import GOVERNOR
from controlplane.errors import EngineError, EngineRefusedError

LOGGER = logging.getLogger(__name__)
STALE_LIMIT_SECONDS = 3600.0
READ_LATELY_SECONDS = 20.0
"""What an engine said within this time rules out a renewal without asking it again."""
OURS = f"{CauseKind.DECISION}:act-"
"""How an engine names the holder of a lease that an action of a governor took."""


def due(state: ConfigState, *, lease_seconds: float, silent_seconds: float | None) -> list[Lease]:
    """Leases of ours with less than half their life left; none after an hour without telemetry."""
    if silent_seconds is None or silent_seconds > STALE_LIMIT_SECONDS or state.frozen:
        return []
    return [
        lease for lease in state.leases
        if lease.holder.startswith(OURS) and lease.expires_in_seconds < lease_seconds / 2
    ]  # fmt: skip


def may_be_due(known: KnownEngine | None, now: float, *, lease_seconds: float) -> bool:
    """Whether to ask the engine: mostly what it said a moment ago answers already."""
    if known is None or known.state is None or not known.reachable:
        return True
    if now - known.at > READ_LATELY_SECONDS:
        return True
    passed = now - known.at
    return any(
        lease.expires_in_seconds - passed < lease_seconds / 2 for lease in known.state.leases
    )


def renewal(state: ConfigState, leases: list[Lease], *, lease_seconds: float) -> Mutation:
    """The request that renews leases: the present config, so no generation is minted."""
    action_id = leases[0].holder.removeprefix(f"{CauseKind.DECISION}:").partition(":")[0]
    key = f"{action_id}:renew:{secrets.token_hex(6)}"
    body = ConfigPut(
        config=state.document.config,
        cause=Cause(kind=CauseKind.DECISION, id=key, actor=GOVERNOR, reason="lease renewed"),
        lease_seconds={lease.knob: lease_seconds for lease in leases},
    )
    return Mutation(
        method="PUT", path="config", body=body.model_dump(mode="json"), if_match=state.etag, key=key
    )


def renew(
    admins: EngineAdmins,
    engine_id: str,
    fence: Fence,
    *,
    lease_seconds: float,
    silent_seconds: float | None,
) -> int:
    """Renew what is due on one engine; gives how many. What fails is tried again next time."""
    admin = admins.of(engine_id)
    try:
        state = admin.config()
        leases = due(state, lease_seconds=lease_seconds, silent_seconds=silent_seconds)
        if not leases:
            return 0
        fence.check_clock()
        admin.send(renewal(state, leases, lease_seconds=lease_seconds), epoch=fence.epoch)
    except EngineRefusedError as error:
        LOGGER.warning("engine %s refused to renew a lease: %s", engine_id, error.detail)
        return 0
    except EngineError as error:
        LOGGER.info("engine %s: %s", engine_id, error.detail)
        return 0
    return len(leases)
