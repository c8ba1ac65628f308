"""The rollback that an Engine page offers: one click opens it, Enter does it.

Everything that the form sends is in the page already: where to, the ETag that it was made from, and
why. Nothing is asked of the engine until the form arrives; a page that is stale rolls nothing back.
"""

from dataclasses import dataclass

from controlplane.actuator.governance import Governance
from controlplane.detectors.finding import DetectorName
from controlplane.web.engine_view import EngineView
from controlplane.web.text import brief

BY_HAND = "operator rollback"
MAX_REASON_CHARACTERS = 512
"""Of `contract.admin.Cause.reason`."""


@dataclass(frozen=True, slots=True)
class OneClickRollback:
    """Back to the last known good.

    Attributes:
        to: hash of the last known good.
        etag: of the config that the page shows.
        reason: the governor's evidence, or that an operator wants it.
    """

    to: str
    etag: str
    reason: str


def offered(view: EngineView, governing: Governance) -> OneClickRollback | None:
    """What one click would do; None while the last known good is live, or nothing is known."""
    known = governing.readback.known(view.engine_id)
    if known is None or known.state is None or view.last_known_good is None or not view.drifted:
        return None
    drift = next((f for f in view.firing if f.detector is DetectorName.BIAS_DRIFT), None)
    reason = BY_HAND if drift is None else f"bias drift: {brief(drift.message)}"
    return OneClickRollback(
        to=view.last_known_good, etag=known.state.etag, reason=reason[:MAX_REASON_CHARACTERS]
    )
