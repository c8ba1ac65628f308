"""Policies that ship: `default`, `fast` for the demo, and the article's own rule for comparison."""

from collections.abc import Mapping
from types import MappingProxyType

from contract.burn_windows import BURN_TIERS, BurnTier, Consumer
from controlplane.detectors.settings import DetectorSettings
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.policy import (
    ConcurrencyRules,
    KnobRules,
    Policy,
    Strategy,
    VerifyPlan,
)
from controlplane.slo.settings import OverflowObjective, SloSettings

DEFAULT = Policy(
    name="default",
    description=(
        "Holds TTFT, TPOT and overflow with small, verified steps. C, chunk size and concurrency "
        "move by themselves; a bias rollback waits for approval."
    ),
    knobs={
        Knob.CAPACITY_FACTOR: KnobRules(
            mode=Mode.AUTO, act_cooldown_seconds=30, relax_cooldown_seconds=300
        ),
        Knob.CHUNK_SIZE: KnobRules(
            mode=Mode.AUTO, act_cooldown_seconds=60, relax_cooldown_seconds=300
        ),
        Knob.MAX_CONCURRENCY: KnobRules(
            mode=Mode.AUTO, act_cooldown_seconds=30, relax_cooldown_seconds=300
        ),
        Knob.ROUTER_BIAS: KnobRules(
            mode=Mode.APPROVE, act_cooldown_seconds=21_600, relax_cooldown_seconds=21_600,
            changes_per_hour=1, changes_per_day=4,
        ),
    },
)  # fmt: skip

_FAST_KNOB = KnobRules(
    mode=Mode.AUTO, act_cooldown_seconds=8, relax_cooldown_seconds=15, changes_per_hour=60,
    changes_per_day=600, reversals_per_hour=20,
)  # fmt: skip

FAST = Policy(
    name="fast",
    description=(
        "For the demo: the default rules on windows of seconds, with the bias rollback automatic. "
        "Too quick for a production service."
    ),
    tick_seconds=1.0,
    knobs={
        Knob.CAPACITY_FACTOR: _FAST_KNOB,
        Knob.CHUNK_SIZE: _FAST_KNOB,
        Knob.MAX_CONCURRENCY: _FAST_KNOB,
        Knob.ROUTER_BIAS: _FAST_KNOB,
    },
    concurrency=ConcurrencyRules(floor=8, relax_ratio=0.6),
    budget_floor_ratio=None,
    lease_seconds=120,
    settle_seconds=4,
    settle_requests=0.5,
    approval_seconds=120,
    quarantine_seconds=20,
    verify=VerifyPlan(seconds=10, min_requests=15, min_assignments=4096),
    detectors=DetectorSettings(
        window_seconds=4.0, min_sampled_tokens=192, min_window_tokens=128, min_assignments=4096
    ),
    slo=SloSettings(
        overflow=OverflowObjective(slice_seconds=4.0, min_assignments=4096),
        tiers=(
            BurnTier(
                name="act-fast", short_seconds=8, long_seconds=20, burn=14.4, min_events=20,
                consumer=Consumer.GOVERNOR,
            ),
            BurnTier(
                name="act-slow", short_seconds=20, long_seconds=60, burn=6.0, min_events=60,
                consumer=Consumer.GOVERNOR,
            ),
            *(tier for tier in BURN_TIERS if tier.consumer is not Consumer.GOVERNOR),
        ),
        confidence=0.95,
        stale_seconds=10,
        relax_seconds=20,
    ),
)  # fmt: skip

_LITERAL_KNOB = KnobRules(
    mode=Mode.AUTO, act_cooldown_seconds=0, relax_cooldown_seconds=0, changes_per_hour=100_000,
    changes_per_day=1_000_000, reversals_per_hour=100_000,
)  # fmt: skip

SEED_LITERAL = Policy(
    name="seed-literal",
    description=(
        "The source article's adaptive_routing as written, for comparison only: overflow > 5 % "
        "sets C = 2; else TTFT > 200 ms sets chunk 256; else TPOT > 50 ms cuts concurrency by "
        "20 %. No persistence, no cooldown, no way back."
    ),
    strategy=Strategy.SEED_LITERAL,
    knobs={
        Knob.CAPACITY_FACTOR: _LITERAL_KNOB,
        Knob.CHUNK_SIZE: _LITERAL_KNOB,
        Knob.MAX_CONCURRENCY: _LITERAL_KNOB,
    },
)

BUILTIN: Mapping[str, Policy] = MappingProxyType(
    {policy.name: policy for policy in (DEFAULT, FAST, SEED_LITERAL)}
)
