"""Snapshots for policy tests: healthy unless told otherwise, every part replaceable."""

from contract.admin import Cause as ConfigCause
from contract.admin import CauseKind, ConfigDocument, ConfigState
from contract.runtime_config import CAPACITY_LADDER, RuntimeConfig
from controlplane.detectors.finding import (
    Attribution,
    Cause,
    DetectorName,
    Finding,
    FindingState,
)
from controlplane.policy.decision import Decision
from controlplane.policy.knob import Knob
from controlplane.policy.snapshot import BiasFacts, KnobChange, LoadFacts, Snapshot
from controlplane.slo.status import SloName, SloState, SloStatus

NOW = 1_700_000_000.0
GOOD = "a" * 64
BAD = "b" * 64
THRESHOLD = {SloName.TTFT: 0.2, SloName.TPOT: 0.05, SloName.OVERFLOW: 0.05}
OVERFLOW_AT_RUNG = dict(zip(CAPACITY_LADDER, (0.14, 0.10, 0.06, 0.03, 0.015, 0.008), strict=True))
SLOTS = dict(zip(CAPACITY_LADDER, (32, 36, 40, 48, 56, 64), strict=True))


def known(value):
    """A value that the test needs to be there."""
    assert value is not None
    return value


def config_state(*, frozen: bool = False, **knobs: object) -> ConfigState:
    """A read-back config, the default one but for `knobs`."""
    config = RuntimeConfig.model_validate({"router_bias": GOOD, **knobs})
    document = ConfigDocument(
        generation=7, config_hash=config.content_hash(), config=config, parent=6,
        cause=ConfigCause(kind=CauseKind.BOOT), committed_unix_seconds=NOW - 3600,
        effective_at_step=10,
    )  # fmt: skip
    return ConfigState(
        document=document, etag=f'"7-{document.config_hash}"', epoch_seen=1, frozen=frozen
    )


def slo(
    name: SloName,
    value: float,
    state: SloState | None = None,
    *,
    calm: bool = False,
    budget: float = 0.9,
) -> SloStatus:
    """A status by its value; breached when over the threshold unless told otherwise."""
    threshold = THRESHOLD[name]
    over = SloState.BREACHED if value > threshold else SloState.MET
    return SloStatus(
        slo=name, state=state or over, objective=0.99, threshold=threshold, value=value,
        room_ratio=1.0 - value / threshold, budget_remaining_ratio=budget, n=1000, calm=calm,
        message=f"{name} is {value:g}.",
    )  # fmt: skip


def slos(
    ttft: float = 0.08,
    tpot: float = 0.02,
    overflow: float = 0.01,
    *,
    calm: bool = False,
    budget: float = 0.9,
) -> tuple[SloStatus, ...]:
    """All three by value."""
    return (
        slo(SloName.TTFT, ttft, calm=calm, budget=budget),
        slo(SloName.TPOT, tpot, calm=calm, budget=budget),
        slo(SloName.OVERFLOW, overflow, calm=calm, budget=budget),
    )


def load(**facts: object) -> LoadFacts:
    """A busy mixed engine at C = 1.25."""
    usual: dict[str, object] = {
        "assignments": 200_000, "overflow_ratio": 0.01, "overflow_at_rung": OVERFLOW_AT_RUNG,
        "slots_at_rung": SLOTS, "gate_mass_kept_ratio": 0.99, "tokens_per_step": 512.0,
        "prefill_token_share": 0.5, "running": 64, "queued": 0, "queue_share_of_ttft": 0.1,
        "probe_nll": 1.5,
    }  # fmt: skip
    return LoadFacts.model_validate({**usual, **facts})


def drift(state: FindingState = FindingState.FIRING) -> Finding:
    """A finding of bias drift in layer 1."""
    return Finding(
        detector=DetectorName.BIAS_DRIFT, state=state, engine_id="engine-0", layer=1, value=0.5,
        low=0.41, high=0.58, threshold=0.3, unit="tau", n=4096, start=NOW - 50, end=NOW,
        message="The live bias adds skew.", evidence={"tau_live": 0.55, "tau_lkg": 0.2},
    )  # fmt: skip


def blamed(cause: Cause = Cause.BIAS, removed: float = 0.95) -> Attribution:
    """An attribution after the bias changed."""
    return Attribution(
        cause=cause, bias_changed=True, excess_removed_ratio=removed,
        message=f"The last known good removes {removed:.0%} of the excess.",
    )  # fmt: skip


def snapshot(**parts: object) -> Snapshot:
    """A healthy moment of one engine, with `parts` replaced."""
    usual: dict[str, object] = {
        "at": NOW, "engine_id": "engine-0", "group": "group-0", "data_age_seconds": 1.0,
        "fresh": True, "reachable": True, "config": config_state(), "observed_generation": 7,
        "findings": (drift(FindingState.CLEAR),), "slos": slos(), "load": load(),
        "bias": BiasFacts(configured=GOOD, live=GOOD, last_known_good=GOOD),
        "baseline": {
            Knob.CAPACITY_FACTOR: "1.25", Knob.CHUNK_SIZE: 512, Knob.MAX_CONCURRENCY: 64,
            Knob.ROUTER_BIAS: GOOD,
        },
        "live_knobs": tuple(Knob),
    }  # fmt: skip
    return Snapshot.model_validate({**usual, **parts})


def drifted(**parts: object) -> Snapshot:
    """A moment at which the bias has drifted and is to blame."""
    usual: dict[str, object] = {
        "findings": (drift(),), "attribution": blamed(),
        "bias": BiasFacts(configured=BAD, live=BAD, last_known_good=GOOD),
        "config": config_state(router_bias=BAD),
    }  # fmt: skip
    return snapshot(**{**usual, **parts})


def change(knob: Knob, ago: float, direction: int = 1) -> KnobChange:
    """A change of `knob` that was kept, `ago` seconds before now."""
    return KnobChange(knob=knob, at=NOW - ago, direction=direction, outcome="succeeded")


def made(decision: Decision) -> tuple[Knob, object, object]:
    """What a decision proposes: knob, present and wanted value."""
    proposal = known(decision.proposal)
    return proposal.knob, proposal.current, proposal.target
