"""Bias snapshots that the control plane keeps, so that the last known good outlives an engine."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from contract.admin import BiasInfo
from controlplane.errors import NotFoundError
from controlplane.history.models import BiasSnapshot


def store(
    session: Session, engine_id: str, info: BiasInfo, *, at: float, payload: bytes | None
) -> None:
    """Note a version as its engine reports it; a payload once stored stays."""
    row = session.get(BiasSnapshot, (engine_id, info.bias_hash))
    if row is None:
        row = BiasSnapshot(engine_id=engine_id, bias_hash=info.bias_hash, payload=None)
        session.add(row)
    row.info, row.status, row.seen_at = info.model_dump(mode="json"), info.status.value, at
    if payload is not None:
        row.payload = payload


def hashes_without_payload(
    session: Session, engine_id: str, hashes: Sequence[str]
) -> frozenset[str]:
    """Those of an engine's hashes whose payload is not stored for it."""
    query = select(BiasSnapshot.bias_hash).where(
        BiasSnapshot.engine_id == engine_id, BiasSnapshot.payload.is_not(None)
    )
    return frozenset(hashes) - frozenset(session.scalars(query))


def stored_hashes(session: Session) -> frozenset[str]:
    """Hashes whose payload is stored, of any engine: a hash names the same bias everywhere."""
    query = select(BiasSnapshot.bias_hash).where(BiasSnapshot.payload.is_not(None)).distinct()
    return frozenset(session.scalars(query))


def payload_of(session: Session, bias_hash: str) -> bytes:
    """The safetensors bytes of a snapshot.

    Raises:
        NotFoundError: no engine's copy is stored.
    """
    query = select(BiasSnapshot.payload).where(
        BiasSnapshot.bias_hash == bias_hash, BiasSnapshot.payload.is_not(None)
    )
    payload = session.scalars(query.limit(1)).first()
    if payload is None:
        raise NotFoundError(f"bias snapshot {bias_hash} is not stored", field="bias_hash")
    return payload
