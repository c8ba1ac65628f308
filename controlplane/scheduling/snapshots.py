"""Builds the `Snapshot` of one engine: history → detectors → SLOs → facts → holds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from contract.admin import KnobSupport
from controlplane.actuator import action_store, holds
from controlplane.actuator.action import Action, Phase
from controlplane.actuator.models import FreezeRecord
from controlplane.actuator.readback import KnownEngine
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.detectors.evaluate import evaluate as detect
from controlplane.detectors.finding import Attribution, Finding
from controlplane.detectors.reference import LoadReference
from controlplane.history.history import History
from controlplane.history.newest import NewestFrame
from controlplane.history.tiers import MINUTE
from controlplane.history.window import EngineWindow
from controlplane.policy.facts import bias_facts, is_fresh, load_facts
from controlplane.policy.knob import Knob
from controlplane.policy.policy import Policy
from controlplane.policy.snapshot import BiasFacts, KnobChange, LoadFacts, Snapshot
from controlplane.scheduling.references import LoadReferences
from controlplane.scheduling.stored_counts import StoredCounts
from controlplane.scheduling.windows import AlignedWindows
from controlplane.slo.evaluate import evaluate as judge
from controlplane.slo.older import NOTHING, OlderCounts
from controlplane.slo.status import SloName, SloStatus

SLO_SECONDS = 600.0
"""Judged by windows, and not by stored minutes and hours: the longest governor tier."""
CHANGES_SECONDS = 86_400.0
_NOT_A_CHANGE = frozenset(
    {Phase.SHADOW_LOGGED, Phase.REJECTED, Phase.EXPIRED, Phase.AWAITING_APPROVAL}
)


@dataclass(frozen=True, slots=True)
class Built:
    """A snapshot, and the windows that it was made from."""

    snapshot: Snapshot
    windows: list[EngineWindow]


@dataclass(frozen=True, slots=True)
class _Held:
    """What the database holds against acting on a group."""

    in_flight: str | None
    changes: tuple[KnobChange, ...]
    quarantined: dict[str, float]
    awaiting: tuple[str, ...]
    freezes: tuple[FreezeRecord, ...]
    pinned: tuple[Knob, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """What detectors and facts say of some windows: the same until one of these changes."""

    windows: tuple[EngineWindow, ...]
    reference: LoadReference | None
    policy: Policy
    findings: tuple[Finding, ...]
    attribution: Attribution
    bias: BiasFacts
    load: LoadFacts

    def holds_for(
        self, windows: Sequence[EngineWindow], reference: LoadReference | None, policy: Policy
    ) -> bool:
        """Whether it was said of these; windows are kept whole, so identity tells."""
        return (
            reference is self.reference
            and len(windows) == len(self.windows)
            and all(a is b for a, b in zip(windows, self.windows, strict=True))
            and policy == self.policy
        )


class SnapshotBuilder:
    """Reads everything that `decide` may look at. Safe to use from any thread."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        history: History,
        windows: AlignedWindows,
        references: LoadReferences,
    ) -> None:
        self._database = database
        self._clock = clock
        self._history = history
        self._windows = windows
        self._references = references
        self._counts = StoredCounts(history)
        self._said: dict[str, _Said] = {}

    def build(
        self,
        engine_id: str,
        group: str,
        policy: Policy,
        known: KnownEngine | None,
        *,
        engines_in_group: int = 1,
        observe_only: str = "",
    ) -> Built:
        """The snapshot of one engine now; an observe-only one has no experts to find things in.

        `known` is what the engine's admin API has just said.
        """
        at = self._clock.now()
        newest = self._history.newest(engine_id)
        windows = self.windows(engine_id, newest, policy)
        with self._database.read() as session:
            held = _held(session, engine_id, group, at)
        said = self._say(engine_id, windows, policy, observe_only=bool(observe_only))
        age = None if newest is None else newest.signed_age(at, policy.slo.stale_seconds)
        snapshot = Snapshot(
            at=at, engine_id=engine_id, group=group, data_age_seconds=age,
            fresh=is_fresh(age, policy.slo.stale_seconds),
            reachable=known is not None and known.reachable,
            config=None if known is None else known.state,
            observed_generation=(
                None if newest is None or observe_only else newest.header.config_generation
            ),
            findings=said.findings, attribution=None if observe_only else said.attribution,
            slos=_measured(
                judge(windows, at, policy.slo, self._older(engine_id, windows, policy)),
                observe_only,
            ),
            bias=said.bias, load=said.load,
            in_flight=held.in_flight, changes=held.changes, quarantined=held.quarantined,
            awaiting_approval=held.awaiting, frozen=bool(held.freezes),
            freeze_reason=held.freezes[0].reason if held.freezes else "", pinned=held.pinned,
            baseline=_baseline(known), live_knobs=_live_knobs(known),
            engines_in_group=engines_in_group, observe_only=observe_only,
        )  # fmt: skip
        return Built(snapshot, windows)

    def _say(
        self, engine_id: str, windows: list[EngineWindow], policy: Policy, *, observe_only: bool
    ) -> _Said:
        """Detectors look again when there is a new window, not in every tick."""
        reference = self._references.of(engine_id)
        said = self._said.get(engine_id)
        if said is None or not said.holds_for(windows, reference, policy):
            rules = policy.detectors
            looked_at = [] if observe_only else windows[-rules.history_windows :]
            found = detect(looked_at, reference, rules)
            said = self._said[engine_id] = _Said(
                tuple(windows), reference, policy, *found, bias_facts(windows),
                load_facts(windows, policy),
            )  # fmt: skip
        return said

    def forget(self, engine_id: str) -> None:
        """The engine is gone."""
        self._said.pop(engine_id, None)
        self._counts.forget(engine_id)

    def _older(
        self, engine_id: str, windows: Sequence[EngineWindow], policy: Policy
    ) -> OlderCounts:
        """What is stored of the time before the windows."""
        if not windows:
            return NOTHING
        start = windows[0].start
        return self._counts.before(engine_id, start, policy.slo.budget_seconds).before(start)

    def newest_windows(self, engine_id: str, policy: Policy) -> list[EngineWindow]:
        """The complete windows of an engine up to now, oldest first."""
        return self.windows(engine_id, self._history.newest(engine_id), policy)

    def windows(
        self, engine_id: str, newest: NewestFrame | None, policy: Policy
    ) -> list[EngineWindow]:
        """The complete windows of an engine, oldest first."""
        if newest is None:
            return []
        seconds = policy.detectors.window_seconds
        count = max(policy.detectors.history_windows, round(SLO_SECONDS / seconds))
        end = math.floor(newest.ended / seconds + 1e-6) * seconds
        count += math.ceil((end - count * seconds) % MINUTE / seconds)  # stored minutes end there
        return self._windows.last(
            engine_id, ended=newest.ended, seconds=seconds, count=count,
            full=policy.detectors.history_windows,
        )  # fmt: skip


def _measured(slos: tuple[SloStatus, ...], observe_only: str) -> tuple[SloStatus, ...]:
    """Of an observe-only engine nothing says what overflows."""
    return tuple(s for s in slos if not (observe_only and s.slo is SloName.OVERFLOW))


def _held(session: Session, engine_id: str, group: str, at: float) -> _Held:
    awaiting = [
        action.change.key for action in action_store.open_of_group(session, group)
        if action.phase is Phase.AWAITING_APPROVAL
    ]  # fmt: skip
    recent = action_store.find(session, engine_id=engine_id, since=at - CHANGES_SECONDS, limit=1000)
    return _Held(
        in_flight=action_store.in_flight(session, group),
        changes=tuple(change for action in reversed(recent) for change in _changes(action)),
        quarantined=holds.quarantined(session, group, at),
        awaiting=tuple(awaiting),
        freezes=tuple(holds.covering(session, engine_id=engine_id, group=group, at=at)),
        pinned=tuple(Knob(row.knob) for row in holds.pins(session, at, engine_id)),
    )


def _changes(action: Action) -> list[KnobChange]:
    """An attempt counts, also one that the engine refused: it is not repeated at once."""
    if action.phase in _NOT_A_CHANGE or action.change.knob is None:
        return []
    return [
        KnobChange(
            knob=action.change.knob, at=action.created_at, direction=action.change.direction,
            outcome=action.phase.value,
        )
    ]  # fmt: skip


def _baseline(known: KnownEngine | None) -> dict[Knob, str | int | None]:
    if known is None or known.baseline is None:
        return {}
    return {knob: getattr(known.baseline, knob.value) for knob in Knob}


def _live_knobs(known: KnownEngine | None) -> tuple[Knob, ...]:
    if known is None or known.capabilities is None:
        return ()
    live = {k.knob for k in known.capabilities.knobs if k.support is KnobSupport.LIVE}
    return tuple(knob for knob in Knob if knob.value in live)
