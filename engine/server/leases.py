"""Leases, per knob: a change that ends by itself. Pure: time comes in as an argument.

A lease remembers the value that it replaced and the value that it set. It ends when anyone sets
the knob to something else; on expiry only its own knob goes back. After a restart of the engine a
lease starts over with its full time, since no monotonic clock outlives its machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from contract.admin import Lease
from contract.runtime_config import KNOBS, RuntimeConfig
from engine.errors import BadRequestError

LEASABLE: tuple[str, ...] = tuple(
    knob for knob in KNOBS if knob not in ("router_bias", "bias_update", "placement")
)
"""A bias or a placement never comes back by itself."""

KnobValue = str | int | None


@dataclass(frozen=True, slots=True)
class HeldLease:
    """One lease: `deadline` in seconds of the engine's monotonic clock."""

    knob: str
    restore: KnobValue
    value: KnobValue
    holder: str
    duration_seconds: float
    deadline: float

    def shown(self, now: float) -> Lease:
        """As the contract shows it."""
        return Lease(
            knob=self.knob, restore=self.restore, holder=self.holder,
            expires_in_seconds=max(0.0, self.deadline - now),
        )  # fmt: skip

    def later(self, seconds: float) -> "HeldLease":
        """The same lease with its deadline moved: freeze pauses expiry."""
        return replace(self, deadline=self.deadline + seconds)


def knob_value(config: RuntimeConfig, knob: str) -> KnobValue:
    """The JSON value of one knob."""
    value: KnobValue = config.model_dump(mode="json")[knob]
    return value


def with_knob(config: RuntimeConfig, knob: str, value: KnobValue) -> RuntimeConfig:
    """The config with one knob set; every bound is checked again (ValidationError)."""
    return RuntimeConfig.model_validate(config.model_dump(mode="json") | {knob: value})


def leases_after(
    held: Mapping[str, HeldLease],
    before: RuntimeConfig,
    after: RuntimeConfig,
    lease_seconds: Mapping[str, float],
    *,
    holder: str,
    now: float,
) -> dict[str, HeldLease]:
    """The leases once `after` is live.

    A knob that changes without a lease of its own loses the one it had. A deeper change under a
    lease keeps the value that the first one would restore. An equal value renews.

    Raises:
        BadRequestError: a lease on an unknown knob, or on a knob that neither changes nor has one.
    """
    _refuse_unknown(lease_seconds)
    leases: dict[str, HeldLease] = {}
    for knob in LEASABLE:
        old, new = knob_value(before, knob), knob_value(after, knob)
        existing = held.get(knob)
        if knob in lease_seconds:
            if existing is None and old == new:
                raise BadRequestError(
                    f"lease_seconds.{knob}: {knob} stays {old!r} and has no lease to renew",
                    field=f"lease_seconds.{knob}", value=lease_seconds[knob],
                    bound="a knob that this change sets, or one with a lease",
                )  # fmt: skip
            leases[knob] = HeldLease(
                knob=knob, restore=old if existing is None else existing.restore, value=new,
                holder=holder, duration_seconds=lease_seconds[knob],
                deadline=now + lease_seconds[knob],
            )  # fmt: skip
        elif existing is not None and old == new:
            leases[knob] = existing
    return {knob: lease for knob, lease in leases.items() if lease.restore != lease.value}


def _refuse_unknown(lease_seconds: Mapping[str, float]) -> None:
    for knob, seconds in lease_seconds.items():
        if knob not in LEASABLE:
            raise BadRequestError(
                f"lease_seconds.{knob}: no lease on {knob}; use one of {', '.join(LEASABLE)}",
                field=f"lease_seconds.{knob}", value=seconds, bound=LEASABLE,
            )  # fmt: skip


def expired(held: Mapping[str, HeldLease], now: float) -> tuple[HeldLease, ...]:
    """Leases whose time is over, oldest first."""
    over = [lease for lease in held.values() if lease.deadline <= now]
    return tuple(sorted(over, key=lambda lease: lease.deadline))
