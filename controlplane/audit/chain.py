"""The hash chain of the audit log: pure.

hash = SHA-256(previous hash ‖ canonical JSON of the event). Whoever changes, drops or inserts an
event breaks every hash after it; the newest hash alone vouches for the whole log.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Event:
    """What happened: who, what, to which thing, from what to what.

    Attributes:
        actor: "governor", an engine id, or a person's name.
        kind: dotted verb, e.g. "action.applying", "freeze.created", "access.denied".
        subject: id of the thing.
        engine_id: where, if it is about one engine.
        value_from, value_to: values as text.
        decision_id, evidence_digest: why, where a decision stands behind it.
        detail: JSON values.
    """

    actor: str
    kind: str
    subject: str
    engine_id: str | None = None
    value_from: str | None = None
    value_to: str | None = None
    decision_id: str | None = None
    evidence_digest: str | None = None
    detail: dict[str, Any] | None = None

    def fields(self, *, sequence: int, at: float) -> dict[str, Any]:
        """What the hash covers, beside the previous hash."""
        return {
            "sequence": sequence,
            "at": at,
            "actor": self.actor,
            "kind": self.kind,
            "subject": self.subject,
            "engine_id": self.engine_id,
            "value_from": self.value_from,
            "value_to": self.value_to,
            "decision_id": self.decision_id,
            "evidence_digest": self.evidence_digest,
            "detail": self.detail or {},
        }


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """The verdict on a log: whole, or broken at a sequence, with one sentence."""

    events: int
    head: str
    broken_at: int | None = None
    message: str = "every event carries the hash of the one before"

    @property
    def holds(self) -> bool:
        """Whether the chain is whole."""
        return self.broken_at is None


def link(previous: str, fields: dict[str, Any]) -> str:
    """The hash of an event after `previous`, 64 hex digits."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(previous.encode() + text.encode()).hexdigest()


def digest(value: object) -> str:
    """SHA-256 of a JSON value's canonical text."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_chain(events: Iterable[dict[str, Any]], *, head: tuple[int, str]) -> ChainCheck:
    """Walk exported events (every field, `previous_hash`, `hash`) from the first to `head`."""
    previous, sequence = GENESIS, 0
    for event in events:
        sequence += 1
        fields = {k: v for k, v in event.items() if k not in {"hash", "previous_hash"}}
        broken = _broken(event, fields, previous, sequence)
        if broken is not None:
            return ChainCheck(sequence - 1, previous, broken_at=sequence, message=broken)
        previous = event["hash"]
    if (sequence, previous) != head:
        message = f"the log ends at event {sequence}, but its head says {head[0]}"
        return ChainCheck(sequence, previous, broken_at=sequence + 1, message=message)
    return ChainCheck(sequence, previous)


def _broken(
    event: dict[str, Any], fields: dict[str, Any], previous: str, sequence: int
) -> str | None:
    if event["sequence"] != sequence:
        return f"event {sequence} is missing (found {event['sequence']})"
    if event["previous_hash"] != previous:
        return f"event {sequence} does not follow the event before it"
    if event["hash"] != link(previous, fields):
        return f"event {sequence} was changed after it was written"
    return None
