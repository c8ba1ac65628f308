"""All that `decide` may look at. Stored with every decision, so that any history replays."""

from pydantic import BaseModel, ConfigDict

from contract.admin import ConfigState
from controlplane.detectors.finding import Attribution, Finding
from controlplane.policy.knob import Knob
from controlplane.slo.status import SloStatus


class KnobChange(BaseModel):
    """A change of a knob in the past, for cooldowns and flap budgets."""

    model_config = ConfigDict(frozen=True)

    knob: Knob
    at: float
    direction: int
    outcome: str


class BiasFacts(BaseModel):
    """The router bias of the engine as the control plane knows it."""

    model_config = ConfigDict(frozen=True)

    configured: str | None = None
    live: str | None = None
    last_known_good: str | None = None
    live_since: float | None = None


class LoadFacts(BaseModel):
    """Level of the traffic and of the capacity in the last windows; see `policy.facts`.

    Attributes:
        assignments: over all layers, before capacity.
        overflow_ratio: before reroute, at the live C.
        overflow_at_rung: the same at every rung of the ladder, as the engine counted it per step.
        overflow_at_rung_peak: the largest over the calm time; what relaxing goes by.
        slots_at_rung: slots of one expert in a step of mean size.
        gate_mass_kept_ratio: gate weight that was kept.
        tokens_per_step, prefill_token_share: size and mix of the steps.
        running, queued: the scheduler at the end.
        queue_share_of_ttft: mean time in queue ÷ mean TTFT.
        probe_nll: negative log-likelihood of the probe text, nats a token.

    None where an observe-only engine does not measure it.
    """

    model_config = ConfigDict(frozen=True)

    assignments: int = 0
    overflow_ratio: float | None = None
    overflow_at_rung: dict[str, float] = {}
    overflow_at_rung_peak: dict[str, float] = {}
    slots_at_rung: dict[str, int] = {}
    gate_mass_kept_ratio: float | None = None
    tokens_per_step: float | None = 0.0
    prefill_token_share: float | None = 0.0
    running: int | None = 0
    queued: int | None = 0
    queue_share_of_ttft: float | None = None
    probe_nll: float | None = None


class Snapshot(BaseModel):
    """One EP group at one moment.

    Attributes:
        at: unix seconds of the evaluation.
        engine_id, group: whose.
        data_age_seconds: age of the newest frame, below 0 when the engine's clock is ahead; None
            when there never was one.
        fresh: whether the telemetry is of now, so that it may be acted on.
        reachable: whether the engine's admin API answered the last read-back.
        config: the engine's config as last read back.
        observed_generation: generation of the newest frame.
        findings, attribution, slos, bias, load: the evaluation.
        in_flight: id of the action that is not yet final, if any.
        changes: past changes, newest last.
        quarantined: action keys (knob and target) that failed verification, with their end.
        awaiting_approval: keys of proposals that wait for a human; they block only themselves.
        frozen: control-plane or engine freeze; reason in `freeze_reason`.
        pinned: knobs that a human (or a foreign generation) owns.
        baseline: the config to relax to.
        live_knobs: knobs that this engine can change live.
        engines_in_group: engines that serve the same group, for canaries.
        observe_only: why the engine is never acted on; empty for one that may be.
    """

    model_config = ConfigDict(frozen=True)

    at: float
    engine_id: str
    group: str
    data_age_seconds: float | None
    fresh: bool
    reachable: bool
    config: ConfigState | None
    observed_generation: int | None
    findings: tuple[Finding, ...] = ()
    attribution: Attribution | None = None
    slos: tuple[SloStatus, ...] = ()
    bias: BiasFacts = BiasFacts()
    load: LoadFacts = LoadFacts()
    in_flight: str | None = None
    changes: tuple[KnobChange, ...] = ()
    quarantined: dict[str, float] = {}
    awaiting_approval: tuple[str, ...] = ()
    frozen: bool = False
    freeze_reason: str = ""
    pinned: tuple[Knob, ...] = ()
    baseline: dict[Knob, str | int | None] = {}
    live_knobs: tuple[Knob, ...] = ()
    engines_in_group: int = 1
    observe_only: str = ""
