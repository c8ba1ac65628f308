"""The newest frame of an engine, and how old that is.

The newest is the one that was sent last, by the order in which boots came and each counts its
frames: not the one that came last, which may be late, nor the one with the latest time, which an
engine's clock may have made up.
"""

import logging
from dataclasses import dataclass

from sqlalchemy import BindParameter, bindparam, select
from sqlalchemy.orm import Session

from contract.frame import FrameHeader
from contract.frame_codec import FrameError, decode_header
from controlplane.db.base import Base
from controlplane.history.cache import FrameCache, FrameKey
from controlplane.history.models import EngineBoot, LoadRing

logger = logging.getLogger(__name__)

SKEW_SECONDS = 5.0
"""How far an engine's clock may run ahead of this one before it is not believed."""
_RING, _BOOT = LoadRing.__table__.c, EngineBoot.__table__.c
_ENGINE: BindParameter[str] = bindparam("engine")
_OF_ENGINE = (
    select(_RING.boot_id, _RING.sequence, _RING.slot, _BOOT.last_received)
    .join(
        Base.metadata.tables["engine_boot"],
        (_BOOT.engine_id == _RING.engine_id) & (_BOOT.boot_id == _RING.boot_id),
    )
    .where(_RING.engine_id == _ENGINE, _BOOT.engine_id == _ENGINE)
    .order_by(_RING.ordinal.desc())
)
_SENT_LAST = _OF_ENGINE.where(_RING.sequence == _BOOT.high_sequence).limit(1)
_PAYLOAD = select(_RING.payload).where(
    _RING.engine_id == _ENGINE, _RING.slot == bindparam("slot")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NewestFrame:
    """The newest frame of an engine, and when one of its boot was last received (unix seconds)."""

    header: FrameHeader
    received: float

    @property
    def ended(self) -> float:
        """End of its interval, by the engine's clock."""
        return self.header.ended_unix_seconds

    @property
    def is_ahead(self) -> bool:
        """Whether it ended well after it was received: its engine's clock runs ahead."""
        return self.ended > self.received + SKEW_SECONDS

    def age(self, now: float) -> float:
        """Seconds since the engine was last heard of, 0 at least.

        By the engine's own time; by when it was received where that lies in the future.
        """
        return max(0.0, now - (self.received if self.is_ahead else self.ended))

    def signed_age(self, now: float, stale_seconds: float) -> float:
        """The same; below 0 while an engine whose clock is ahead of this one is still heard of.

        `is_fresh` holds such an engine for its clock, and a silent one for its age.
        """
        age, told = self.age(now), now - self.ended
        return told if told < 0 and age <= stale_seconds else age


def newest_of_ring(session: Session, cache: FrameCache, engine_id: str) -> NewestFrame | None:
    """The newest frame that can be read; None when the engine never sent one."""
    for query in (_SENT_LAST, _OF_ENGINE):
        for boot_id, sequence, slot, received in session.execute(query, {"engine": engine_id}):
            header = _header(session, cache, FrameKey(engine_id, boot_id, sequence), slot)
            if header is not None:
                return NewestFrame(header, received)
    return None


def _header(session: Session, cache: FrameCache, key: FrameKey, slot: int) -> FrameHeader | None:
    held = cache.get(key)
    if held is not None:
        return held.header
    payload = session.scalar(_PAYLOAD, {"engine": key.engine_id, "slot": slot})
    try:
        return None if payload is None else decode_header(payload)
    except FrameError:
        logger.exception("ring frame %s/%s is left out", key.engine_id, slot)
        return None
