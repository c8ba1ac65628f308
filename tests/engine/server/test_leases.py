import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.runtime_config import CAPACITY_LADDER, CHUNK_SIZES, RuntimeConfig
from engine.errors import BadRequestError
from engine.server.leases import LEASABLE, HeldLease, expired, knob_value, leases_after, with_knob

BASE = RuntimeConfig()


def after(
    held: dict[str, HeldLease],
    new: RuntimeConfig,
    seconds: dict[str, float] | None = None,
    *,
    old: RuntimeConfig = BASE,
    now: float = 100.0,
) -> dict[str, HeldLease]:
    return leases_after(held, old, new, seconds or {}, holder="decision:d1", now=now)


def test_a_lease_remembers_what_it_replaced() -> None:
    lease = after({}, with_knob(BASE, "capacity_factor", "2"), {"capacity_factor": 60})
    assert lease["capacity_factor"].restore == "1.25"
    assert lease["capacity_factor"].value == "2"
    assert lease["capacity_factor"].deadline == 160.0


def test_a_deeper_change_keeps_the_first_restore_value() -> None:
    one = with_knob(BASE, "chunk_size", 256)
    held = after({}, one, {"chunk_size": 60})
    two = after(held, with_knob(one, "chunk_size", 128), {"chunk_size": 30}, old=one, now=110.0)
    assert two["chunk_size"].restore == 512
    assert two["chunk_size"].value == 128
    assert two["chunk_size"].deadline == 140.0


def test_a_change_of_the_knob_without_a_lease_ends_the_lease() -> None:
    one = with_knob(BASE, "chunk_size", 256)
    held = after({}, one, {"chunk_size": 60})
    assert after(held, with_knob(one, "chunk_size", 1024), old=one) == {}


def test_a_change_of_another_knob_leaves_the_lease() -> None:
    one = with_knob(BASE, "chunk_size", 256)
    held = after({}, one, {"chunk_size": 60})
    assert after(held, with_knob(one, "cap_min", 4), old=one, now=150.0) == held


def test_going_back_to_the_restore_value_needs_no_lease() -> None:
    one = with_knob(BASE, "chunk_size", 256)
    held = after({}, one, {"chunk_size": 60})
    assert after(held, BASE, {"chunk_size": 60}, old=one) == {}


def test_a_lease_on_a_knob_that_does_not_change_is_refused() -> None:
    with pytest.raises(BadRequestError, match="stays 512 and has no lease to renew") as caught:
        after({}, BASE, {"chunk_size": 60})
    assert caught.value.field == "lease_seconds.chunk_size"


@pytest.mark.parametrize("knob", ["router_bias", "bias_update", "placement", "unheard_of"])
def test_no_lease_on_a_bias_a_placement_or_an_unknown_knob(knob: str) -> None:
    with pytest.raises(BadRequestError, match=f"no lease on {knob}") as caught:
        after({}, BASE, {knob: 60})
    assert caught.value.bound == LEASABLE


def test_expired_leases_come_oldest_first() -> None:
    new = RuntimeConfig(chunk_size=256, cap_min=4)
    held = after({}, new, {"chunk_size": 60, "cap_min": 30})
    assert expired(held, 129.9) == ()
    assert [lease.knob for lease in expired(held, 200.0)] == ["cap_min", "chunk_size"]


CONFIGS = st.builds(
    RuntimeConfig,
    capacity_factor=st.sampled_from(CAPACITY_LADDER),
    chunk_size=st.sampled_from(CHUNK_SIZES),
    cap_min=st.integers(1, 4),
    max_concurrency=st.integers(1, 4),
)


@given(st.lists(st.tuples(CONFIGS, st.booleans()), max_size=8))
def test_expiry_of_every_lease_gives_back_what_no_one_else_has_set(
    changes: list[tuple[RuntimeConfig, bool]],
) -> None:
    live, held = BASE, dict[str, HeldLease]()
    kept = BASE  # what the knobs are without any lease
    for config, leased in changes:
        moved = [k for k in LEASABLE if knob_value(live, k) != knob_value(config, k)]
        held = after(held, config, dict.fromkeys(moved, 60.0) if leased else {}, old=live)
        for knob in moved:
            if not leased:
                kept = kept.model_copy(update={knob: getattr(config, knob)})
        live = config
    for lease in expired(held, 1e9):
        live = with_knob(live, lease.knob, lease.restore)
    assert live.model_dump() == kept.model_dump()
