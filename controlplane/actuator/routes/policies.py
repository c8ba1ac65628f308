"""Policies: documents by version, and which one governs an engine in which modes."""

from typing import Any

from fastapi import APIRouter
from pydantic import Field

from controlplane.actuator import policy_store
from controlplane.actuator.policy_store import EVERY_ENGINE, Governed
from controlplane.actuator.routes.dependencies import Admin, Body, Governing, Viewer
from controlplane.audit import log
from controlplane.audit.chain import Event, digest
from controlplane.errors import InvalidInputError
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import Policy, parsed

router = APIRouter(tags=["policies"])


class PolicyWish(Body):
    """A policy document (its `version` is given by the store), and why it changed."""

    policy: dict[str, Any]
    note: str = Field(default="", max_length=1000)


class VersionShown(Body):
    """One stored version."""

    version: int
    author: str
    note: str
    created_at: float


class PolicyShown(Body):
    """The newest version of a policy, and the stored ones before it."""

    policy: Policy
    versions: list[VersionShown]


class AssignmentWish(Body):
    """A policy for an engine, and modes that differ from the policy's."""

    policy: str = Field(min_length=1, max_length=64)
    modes: dict[Knob, Mode] = Field(default_factory=dict)


class GoverningShown(Body):
    """What governs an engine.

    `assignment` is "" for the default, "*" for the row of every engine, or the engine's id.
    """

    engine_id: str
    policy: str
    policy_version: int
    modes: dict[Knob, Mode]
    assignment: str
    version: int


@router.get("/policies")
def list_policies(_viewer: Viewer, governing: Governing) -> list[Policy]:
    """The newest version of every policy."""
    with governing.database.read() as session:
        return [policy_store.newest(session, name) for name in policy_store.names(session)]


@router.get("/policies/{name}")
def get_policy(name: str, _viewer: Viewer, governing: Governing) -> PolicyShown:
    """One policy with its stored versions."""
    with governing.database.read() as session:
        versions = [
            VersionShown(
                version=row.version, author=row.author, note=row.note, created_at=row.created_at
            )
            for row in policy_store.versions(session, name)
        ]
        return PolicyShown(policy=policy_store.newest(session, name), versions=versions)


@router.put("/policies/{name}")
def put_policy(name: str, wish: PolicyWish, admin: Admin, governing: Governing) -> Policy:
    """Store a new version of a policy; it governs from the next tick on."""
    policy = parsed(wish.policy)
    if policy.name != name:
        raise InvalidInputError(
            f"the document is named {policy.name!r}", field="policy.name", value=policy.name,
            bound=name,
        )  # fmt: skip
    now = governing.clock.now()
    with governing.database.write() as session:
        stored = policy_store.save(session, policy, author=admin.name, note=wish.note, at=now)
        event = Event(
            actor=admin.name, kind="policy.saved", subject=f"{name}:{stored.version}",
            value_to=digest(stored.model_dump(mode="json")), detail={"note": wish.note},
        )  # fmt: skip
        log.append(session, event, at=now)
    return stored


@router.get("/engines/{engine_id}/policy")
def get_governing(engine_id: str, _viewer: Viewer, governing: Governing) -> GoverningShown:
    """What governs an engine now."""
    governing.groups.group_of(engine_id)
    with governing.database.read() as session:
        governed = policy_store.governing(session, engine_id, governing.default_policy)
    return _shown(engine_id, governed)


@router.put("/engines/{engine_id}/policy")
def assign(
    engine_id: str, wish: AssignmentWish, admin: Admin, governing: Governing
) -> GoverningShown:
    """Give an engine ("*": every engine without its own) a policy and modes by knob."""
    if engine_id != EVERY_ENGINE:
        governing.groups.group_of(engine_id)
    now = governing.clock.now()
    with governing.database.write() as session:
        before = policy_store.governing(session, engine_id, governing.default_policy)
        policy_store.assign(
            session, engine_id=engine_id, policy=wish.policy, modes=wish.modes,
            author=admin.name, at=now,
        )  # fmt: skip
        after = policy_store.governing(session, engine_id, governing.default_policy)
        event = Event(
            actor=admin.name, kind="policy.assigned", subject=engine_id,
            engine_id=None if engine_id == EVERY_ENGINE else engine_id,
            value_from=_text(before), value_to=_text(after),
        )  # fmt: skip
        log.append(session, event, at=now)
    return _shown(engine_id, after)


def _text(governed: Governed) -> str:
    modes = ", ".join(f"{knob} {rules.mode}" for knob, rules in governed.policy.knobs.items())
    return f"{governed.policy.name}: {modes}"


def _shown(engine_id: str, governed: Governed) -> GoverningShown:
    return GoverningShown(
        engine_id=engine_id, policy=governed.policy.name,
        policy_version=governed.policy.version,
        modes={knob: rules.mode for knob, rules in governed.policy.knobs.items()},
        assignment=governed.assignment, version=governed.version,
    )  # fmt: skip
