"""Policies by name and version, and which one governs an engine, with its modes by knob."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.actuator.models import PolicyAssignment, PolicyVersion
from controlplane.errors import InvalidInputError, NotFoundError
from controlplane.policy.builtin import BUILTIN
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import Policy

EVERY_ENGINE = "*"


@dataclass(frozen=True, slots=True)
class Governed:
    """The policy in force on an engine.

    Attributes:
        policy: with the modes of the assignment applied.
        modes: what the assignment overrides, by knob.
        assignment: "" (the default), "*" or the engine's id; `version` counts its changes.
    """

    policy: Policy
    modes: dict[Knob, Mode]
    assignment: str
    version: int


def names(session: Session) -> list[str]:
    """Every known policy."""
    stored = session.scalars(select(PolicyVersion.name).distinct())
    return sorted({*BUILTIN, *stored})


def newest(session: Session, name: str) -> Policy:
    """The newest version of a policy; what ships is version 1.

    Raises:
        NotFoundError: there is no policy of that name.
    """
    row = session.scalars(
        select(PolicyVersion)
        .where(PolicyVersion.name == name)
        .order_by(PolicyVersion.version.desc())
        .limit(1)
    ).first()
    if row is not None:
        return Policy.model_validate(row.body)
    if name in BUILTIN:
        return BUILTIN[name]
    raise NotFoundError(
        f"policy {name!r} does not exist; known: {', '.join(names(session))}",
        field="policy", value=name,
    )  # fmt: skip


def check_named(session: Session, named: Mapping[str, str]) -> None:
    """Refuse settings that name a policy which is neither shipped nor stored.

    Args:
        session: of the database that policies are stored in.
        named: dotted name of a setting → the policy that it names.

    Raises:
        InvalidInputError: the first setting that names an unknown policy.
    """
    for setting, name in named.items():
        try:
            newest(session, name)
        except NotFoundError as error:
            raise InvalidInputError(
                f"setting {setting}: {error.detail}", field=setting, value=name,
                bound=names(session),
            ) from None  # fmt: skip


def versions(session: Session, name: str) -> list[PolicyVersion]:
    """Stored versions of a policy, newest first; what ships is not among them."""
    query = select(PolicyVersion).where(PolicyVersion.name == name)
    return list(session.scalars(query.order_by(PolicyVersion.version.desc())))


def save(session: Session, policy: Policy, *, author: str, note: str, at: float) -> Policy:
    """Store a policy as the next version of its name."""
    last = session.scalar(
        select(func.max(PolicyVersion.version)).where(PolicyVersion.name == policy.name)
    )
    number = (last or (1 if policy.name in BUILTIN else 0)) + 1
    stored = policy.model_copy(update={"version": number})
    session.add(
        PolicyVersion(
            name=policy.name, version=number, body=stored.model_dump(mode="json"), author=author,
            note=note, created_at=at,
        )
    )  # fmt: skip
    session.flush()
    return stored


def assign(
    session: Session,
    *,
    engine_id: str,
    policy: str,
    modes: dict[Knob, Mode],
    author: str,
    at: float,
) -> PolicyAssignment:
    """Give an engine ("*": every engine without its own) a policy, and modes by knob.

    Raises:
        NotFoundError: there is no policy of that name.
        InvalidInputError: a mode is for a knob that the policy does not name.
    """
    known = newest(session, policy)
    for knob in modes:
        if knob not in known.knobs:
            raise InvalidInputError(
                f"policy {policy!r} does not govern {knob}",
                field=f"modes.{knob}", value=knob.value,
                bound=", ".join(k.value for k in known.knobs),
            )  # fmt: skip
    row = session.get(PolicyAssignment, engine_id, with_for_update=True)
    if row is None:
        row = PolicyAssignment(engine_id=engine_id, version=0)
        session.add(row)
    row.policy, row.modes = policy, {knob.value: mode.value for knob, mode in modes.items()}
    row.version, row.author, row.updated_at = row.version + 1, author, at
    session.flush()
    return row


def governing(session: Session, engine_id: str, default: str) -> Governed:
    """The policy in force on an engine; `default` names it where nothing is assigned."""
    row = session.get(PolicyAssignment, engine_id) or session.get(PolicyAssignment, EVERY_ENGINE)
    if row is None:
        return Governed(newest(session, default), {}, "", 0)
    modes = {Knob(knob): Mode(mode) for knob, mode in row.modes.items()}
    policy = with_modes(newest(session, row.policy), modes)
    return Governed(policy, modes, row.engine_id, row.version)


def with_modes(policy: Policy, modes: dict[Knob, Mode]) -> Policy:
    """The policy with other modes; knobs that it does not name stay off."""
    knobs = {
        knob: rules.model_copy(update={"mode": modes.get(knob, rules.mode)})
        for knob, rules in policy.knobs.items()
    }
    return policy.model_copy(update={"knobs": knobs})
