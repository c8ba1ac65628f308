"""One engine as the pages and `/api/v1/fleet` show it: what it says, what was found, what is done.

Built from stored facts only; no engine is asked.
"""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from contract.runtime_config import RuntimeConfig
from controlplane.actuator import action_store, holds, policy_store
from controlplane.actuator.action import Action, Phase
from controlplane.actuator.governance import Governance
from controlplane.actuator.models import FreezeRecord
from controlplane.actuator.readback import KnownEngine
from controlplane.audit import decisions
from controlplane.detectors.finding import Attribution, Finding, FindingState
from controlplane.engine_kind import EngineKind
from controlplane.history.history import History
from controlplane.history.newest import NewestFrame
from controlplane.history.observed import observed_of
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import LoadFacts, Snapshot
from controlplane.slo.status import SloState, SloStatus
from controlplane.web.text import change


class EngineState(StrEnum):
    """Pills of an engine; several may hold at once, READY stands alone."""

    READY = "READY"
    STALE = "STALE"
    UNREACHABLE = "UNREACHABLE"
    FROZEN = "FROZEN"
    NOT_CONFIGURED = "NOT CONFIGURED"
    OBSERVE_ONLY = "OBSERVE ONLY"


class LiveAction(BaseModel):
    """An action of the engine's group that is not final."""

    model_config = ConfigDict(frozen=True)

    action_id: str
    phase: Phase
    summary: str
    note: str


class EngineView(BaseModel):
    """One engine now. Times are unix seconds; `age_seconds` is that of its newest frame.

    `observe_only` is the kind of an engine that is read by its metrics and never acted on; what it
    does not measure is named in `missing`, and None.
    """

    model_config = ConfigDict(frozen=True)

    engine_id: str
    group: str
    model: str = ""
    simulated: bool = False
    configured: bool = True
    observe_only: EngineKind | None = None
    missing: tuple[str, ...] = ()
    states: tuple[EngineState, ...] = ()
    told: str = ""
    newest_ended: float | None = None
    age_seconds: float | None = None
    layers: int | None = None
    experts: int | None = None
    top_k: int | None = None
    ranks: int | None = None
    running: int | None = None
    queued: int | None = None
    generation: int | None = None
    config: RuntimeConfig | None = None
    configured_bias: str | None = None
    live_bias: str | None = None
    last_known_good: str | None = None
    bias_distance: float | None = None
    policy: str = ""
    slos: tuple[SloStatus, ...] = ()
    findings: tuple[Finding, ...] = ()
    attribution: Attribution | None = None
    load: LoadFacts = LoadFacts()
    evaluated_at: float | None = None
    decision_id: str = ""
    decision_reason: str = ""
    decision_explanation: str = ""
    actions: tuple[LiveAction, ...] = ()

    @property
    def firing(self) -> tuple[Finding, ...]:
        """Findings that fire."""
        return tuple(f for f in self.findings if f.state is FindingState.FIRING)

    @property
    def drifted(self) -> bool:
        """Whether another bias than the last known good is live."""
        return self.last_known_good is not None and self.live_bias != self.last_known_good


def everyone(governing: Governance, history: History) -> list[str]:
    """Configured engines, and those that sent frames without being configured, by id."""
    return sorted({*governing.groups.everyone(), *history.engine_ids()})


def fleet(governing: Governance, history: History) -> list[EngineView]:
    """Every engine, by group and id."""
    views = [engine(governing, history, name) for name in everyone(governing, history)]
    return sorted(views, key=lambda view: (view.group, view.engine_id))


def engine(governing: Governance, history: History, engine_id: str) -> EngineView:
    """One engine; empty where nothing is known of it."""
    now = governing.clock.now()
    configured = engine_id in governing.groups.everyone()
    newest, known = history.newest(engine_id), governing.readback.known(engine_id)
    said = newest.header.group if newest else engine_id
    group = governing.groups.group_of(engine_id) if configured else said
    with governing.database.read() as session:
        policy = policy_store.governing(session, engine_id, governing.default_policy).policy
        freezes = holds.covering(session, engine_id=engine_id, group=group, at=now)
        open_actions = action_store.open_of_group(session, group)
        evaluated = _evaluated(session, engine_id)
    kind = governing.groups.kind_of(engine_id) if configured else _kind_said(newest)
    states, told = _states(
        configured=configured,
        kind=kind,
        newest=newest,
        known=known,
        freezes=freezes,
        policy=policy,
        now=now,
        unread=governing.why_unread(engine_id) if kind.is_observed else "",
    )
    view = EngineView(
        engine_id=engine_id, group=group, configured=configured, states=states, told=told,
        policy=policy.name if configured else "",
        observe_only=kind if kind.is_observed else None,
        actions=tuple(_live(action) for action in open_actions),
    )  # fmt: skip
    facts = {**_of_frame(newest, now), **_of_admin(known), **evaluated}
    if kind.is_observed:
        facts |= _of_scrape(newest)
    view = view.model_copy(update=facts)
    if EngineState.STALE in states:
        view = view.model_copy(update={"slos": _without_verdict(view.slos)})
    return view


def _states(
    *,
    configured: bool,
    kind: EngineKind,
    newest: NewestFrame | None,
    known: KnownEngine | None,
    freezes: Sequence[FreezeRecord],
    policy: Policy,
    now: float,
    unread: str,
) -> tuple[tuple[EngineState, ...], str]:
    """The pills, and one sentence on what is wrong."""
    states, told = _standing(configured=configured, kind=kind, known=known)
    if unread:
        told.append(f"Its metrics cannot be read: {unread}")
    if newest is None:
        states.append(EngineState.STALE)
        told.append("No frame has arrived yet.")
    elif newest.age(now) > policy.slo.stale_seconds:
        states.append(EngineState.STALE)
        told.append(f"The newest frame is {newest.age(now):.0f} s old.")
    elif newest.is_ahead:
        told.append(f"The engine's clock is {newest.ended - newest.received:.0f} s ahead.")
    if freezes:
        states.append(EngineState.FROZEN)
        told.append(f"Frozen by {freezes[0].author}: {freezes[0].reason}")
    elif known is not None and known.state is not None and known.state.frozen:
        states.append(EngineState.FROZEN)
        told.append(f"Frozen at the engine: {known.state.freeze_reason or 'no reason given'}")
    return tuple(states) or (EngineState.READY,), " ".join(told)


def _standing(
    *, configured: bool, kind: EngineKind, known: KnownEngine | None
) -> tuple[list[EngineState], list[str]]:
    """Whether it can be acted on at all, and if not, why."""
    if not configured:
        said = (
            "It is not configured here any more: its metrics are not read."
            if kind.is_observed
            else "It sends frames but is not configured here: it is watched, not governed."
        )
        return [EngineState.NOT_CONFIGURED], [said]
    if kind.is_observed:
        return [EngineState.OBSERVE_ONLY], [
            f"{kind.why_observed[0].upper()}{kind.why_observed[1:]}."
        ]
    if known is None:
        return [EngineState.UNREACHABLE], ["Its admin API has not been read yet."]
    if not known.reachable:
        return [EngineState.UNREACHABLE], [f"Its admin API does not answer: {known.error}"]
    return [], []


def _of_frame(newest: NewestFrame | None, now: float) -> dict[str, object]:
    if newest is None:
        return {}
    header = newest.header
    return {
        "model": header.model, "simulated": header.simulated, "newest_ended": newest.ended,
        "age_seconds": newest.age(now), "layers": header.layers,
        "experts": header.experts, "top_k": header.top_k, "ranks": header.ranks,
        "running": header.gauges.running, "queued": header.gauges.queued,
        "generation": header.config_generation, "config": header.config,
        "configured_bias": header.configured_bias, "live_bias": header.live_bias,
        "last_known_good": header.lkg_bias, "bias_distance": header.bias_distance,
    }  # fmt: skip


def _of_scrape(newest: NewestFrame | None) -> dict[str, object]:
    """A scraped engine says nothing of a config or a bias; what else it lacks is named."""
    observed = None if newest is None else observed_of(newest.header)
    missing = () if observed is None else observed.missing
    unknown = (
        "generation", "config", "configured_bias", "live_bias", "last_known_good", "bias_distance",
        "layers", "experts", "top_k", "ranks", *(g for g in ("running", "queued") if g in missing),
    )  # fmt: skip
    return {"missing": missing, **dict.fromkeys(unknown)}


def _kind_said(newest: NewestFrame | None) -> EngineKind:
    """The kind of an engine that nobody configured, by its newest frame."""
    observed = None if newest is None else observed_of(newest.header)
    said = EngineKind.TRIMTAB.value if observed is None else observed.kind
    return next((kind for kind in EngineKind if kind.value == said), EngineKind.TRIMTAB)


def _of_admin(known: KnownEngine | None) -> dict[str, object]:
    """What the admin API said, which is as new as the frame or newer."""
    if known is None or known.state is None:
        return {}
    facts: dict[str, object] = {
        "generation": known.state.document.generation, "config": known.state.document.config,
    }  # fmt: skip
    if known.capabilities is not None:
        facts |= {"model": known.capabilities.model, "simulated": known.capabilities.simulated}
    if known.biases is not None and known.biases.last_known_good is not None:
        facts["last_known_good"] = known.biases.last_known_good
    return facts


def _evaluated(session: Session, engine_id: str) -> dict[str, object]:
    newest = decisions.newest_evaluation(session, engine_id)
    row = None if newest is None else decisions.get(session, newest.decision_id)
    if newest is None or row is None:
        return {}
    snapshot = Snapshot.model_validate(decisions.snapshot_of(newest))
    return {
        "slos": snapshot.slos, "findings": snapshot.findings, "attribution": snapshot.attribution,
        "load": snapshot.load, "evaluated_at": newest.at, "decision_id": row.decision_id,
        "decision_reason": row.reason, "decision_explanation": newest.explanation,
    }  # fmt: skip


def _without_verdict(slos: Sequence[SloStatus]) -> tuple[SloStatus, ...]:
    """Old verdicts are no verdicts."""
    stale = {"state": SloState.STALE, "budget_remaining_ratio": None, "budget": None}
    return tuple(status.model_copy(update=stale) for status in slos)


def _live(action: Action) -> LiveAction:
    return LiveAction(
        action_id=action.action_id, phase=action.phase, summary=change(action.change),
        note=action.note,
    )  # fmt: skip
