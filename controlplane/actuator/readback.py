"""Reads engines back and keeps what they say: config, capabilities, bias versions and payloads."""

import logging
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from contract.admin import BiasList, BiasStatus, Capabilities, ConfigDocument, ConfigState
from contract.runtime_config import RuntimeConfig
from controlplane.actuator import bias_snapshots, holds
from controlplane.actuator.adoption import Adopted, adopted_since, baseline_of
from controlplane.actuator.fence import Fence
from controlplane.actuator.models import ActionRecord, EngineReadback
from controlplane.actuator.ports import EngineAdmins
from controlplane.audit import log
from controlplane.audit.chain import Event
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import EngineError

LOGGER = logging.getLogger(__name__)
UNCHANGED_SECONDS = 10.0
"""An engine that says the same is written down at most this often."""
MAX_PAYLOADS = 4
"""Bias payloads that are fetched in one pass at most; the last known good comes first."""


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """What is known of an engine from its admin API.

    Attributes:
        at: unix seconds of the last attempt; `reachable` and `error`: how it went.
        state, capabilities, biases: as last read, however long ago.
        baseline: the config that degradations relax to.
    """

    engine_id: str
    at: float
    reachable: bool
    error: str
    state: ConfigState | None
    capabilities: Capabilities | None
    biases: BiasList | None
    baseline: RuntimeConfig | None


class Readback:
    """Keeps `engine_readback` rows; only the leader writes them."""

    def __init__(self, database: Database, clock: Clock, admins: EngineAdmins) -> None:
        self._database = database
        self._clock = clock
        self._admins = admins
        self._parsed: dict[str, _Parsed] = {}

    def known(self, engine_id: str) -> KnownEngine | None:
        """What was last read; None before the first attempt."""
        with self._database.read() as session:
            row = session.get(EngineReadback, engine_id)
            return None if row is None else self._known(row)

    def forget(self, session: Session, engine_id: str) -> None:
        """An engine was removed: whatever comes back under its id says everything anew."""
        row = session.get(EngineReadback, engine_id)
        if row is not None:
            session.delete(row)
        self._parsed.pop(engine_id, None)

    def epoch_seen(self, engine_id: str) -> int:
        """The newest epoch that the engine was heard to have seen; 0 before it was heard."""
        parsed = self._parsed.get(engine_id)
        state = None if parsed is None else parsed.state
        if state is None:
            known = self.known(engine_id)
            state = None if known is None else known.state
        return 0 if state is None else state.epoch_seen

    def refresh(self, engine_id: str, fence: Fence) -> KnownEngine:
        """Read the config; adopt generations that someone else wrote."""
        admin = self._admins.of(engine_id)
        try:
            state = admin.config()
            known = self.known(engine_id)
            documents: tuple[ConfigDocument, ...] = (state.document,)
            seen = known.state.document.generation if known and known.state else None
            if seen is not None and state.document.generation > seen + 1:
                documents = admin.history().documents
            elif seen is not None and known is not None and known.state is not None:
                documents = (known.state.document, state.document)
        except EngineError as error:
            return self._note_silence(engine_id, error, fence)
        if known is not None and self._says_nothing_new(known, state):
            return known
        with self._database.write() as session:
            fence.check(session)
            row = _row(session, engine_id)
            self._adopt(session, row, state, documents)
            row.at, row.reachable, row.error = self._clock.now(), True, ""
            row.state = state.model_dump(mode="json")
            row.seen_generation = state.document.generation
            session.flush()
            return self._known(row)

    def _says_nothing_new(self, known: KnownEngine, state: ConfigState) -> bool:
        """The same as a moment ago, but for the leases' clocks: not worth a write."""
        if known.state is None or not known.reachable or known.baseline is None:
            return False
        young = self._clock.now() - known.at < UNCHANGED_SECONDS
        return young and without_clocks(known.state) == without_clocks(state)

    def refresh_biases(self, engine_id: str, fence: Fence) -> bool:
        """Read capabilities and bias versions; fetch payloads that are not stored yet.

        Gives whether all of it is known now: not when the engine did not answer, nor while payloads
        are left for the next pass.
        """
        admin = self._admins.of(engine_id)
        try:
            capabilities, biases = admin.capabilities(), admin.biases()
            missing = self._missing_payloads(engine_id, biases)
            fetched = {name: admin.bias_blob(name) for name in missing[:MAX_PAYLOADS]}
        except EngineError as error:
            LOGGER.info("engine %s: %s", engine_id, error.detail)
            return False
        now = self._clock.now()
        with self._database.write() as session:
            fence.check(session)
            row = _row(session, engine_id)
            row.capabilities = capabilities.model_dump(mode="json")
            row.biases = biases.model_dump(mode="json")
            for info in biases.versions:
                bias_snapshots.store(
                    session, engine_id, info, at=now, payload=fetched.get(info.bias_hash)
                )
        return len(missing) <= MAX_PAYLOADS

    def _missing_payloads(self, engine_id: str, biases: BiasList) -> list[str]:
        with self._database.read() as session:
            missing = bias_snapshots.hashes_without_payload(
                session, engine_id, [info.bias_hash for info in biases.versions]
            )
        wanted = [info for info in biases.versions if info.bias_hash in missing]
        wanted.sort(key=lambda i: (i.status is not BiasStatus.LAST_KNOWN_GOOD, -i.version))
        return [info.bias_hash for info in wanted]

    def _note_silence(self, engine_id: str, error: EngineError, fence: Fence) -> KnownEngine:
        with self._database.write() as session:
            fence.check(session)
            row = _row(session, engine_id)
            row.at, row.reachable, row.error = self._clock.now(), False, error.detail
            session.flush()
            return self._known(row)

    def _known(self, row: EngineReadback) -> KnownEngine:
        raw = (row.state, row.capabilities, row.biases, row.baseline)
        parsed = self._parsed.get(row.engine_id)
        if parsed is None or parsed.raw != raw:
            parsed = self._parsed[row.engine_id] = _Parsed.of(raw)
        return KnownEngine(
            engine_id=row.engine_id, at=row.at, reachable=row.reachable, error=row.error,
            state=parsed.state, capabilities=parsed.capabilities, biases=parsed.biases,
            baseline=parsed.baseline,
        )  # fmt: skip

    def _adopt(
        self,
        session: Session,
        row: EngineReadback,
        state: ConfigState,
        documents: tuple[ConfigDocument, ...],
    ) -> None:
        for foreign in adopted_since(
            documents, row.seen_generation, lambda cause: _is_an_action(session, cause)
        ):
            self._pin(session, row.engine_id, foreign)
            row.baseline = None
        if row.baseline is None:
            row.baseline = baseline_of(state).model_dump(mode="json")

    def _pin(self, session: Session, engine_id: str, foreign: Adopted) -> None:
        generation, now = foreign.document.generation, self._clock.now()
        for knob in foreign.knobs:
            holds.pin(
                session, engine_id=engine_id, knob=knob, author=foreign.author, at=now,
                reason=f"generation {generation} was written by {foreign.author}",
            )  # fmt: skip
        event = Event(
            actor=foreign.author[:128], kind="config.adopted",
            subject=f"{engine_id}:{generation}"[:160], engine_id=engine_id,
            value_to=str(generation),
            detail={"knobs": [knob.value for knob in foreign.knobs],
                    "cause": foreign.document.cause.model_dump(mode="json")},
        )  # fmt: skip
        log.append(session, event, at=now)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """What a row said last, and what that meant: parsing is dearer than reading."""

    raw: tuple[Any, ...]
    state: ConfigState | None
    capabilities: Capabilities | None
    biases: BiasList | None
    baseline: RuntimeConfig | None

    @classmethod
    def of(cls, raw: tuple[Any, ...]) -> "_Parsed":
        state, capabilities, biases, baseline = raw
        return cls(
            raw=raw,
            state=None if state is None else ConfigState.model_validate(state),
            capabilities=(
                None if capabilities is None else Capabilities.model_validate(capabilities)
            ),
            biases=None if biases is None else BiasList.model_validate(biases),
            baseline=None if baseline is None else RuntimeConfig.model_validate(baseline),
        )


def without_clocks(state: ConfigState) -> ConfigState:
    """The state with the time left of its leases taken out."""
    leases = tuple(lease.model_copy(update={"expires_in_seconds": 0.0}) for lease in state.leases)
    return state.model_copy(update={"leases": leases})


def set_baseline(session: Session, engine_id: str, config: RuntimeConfig) -> None:
    """An operator's config becomes what degradations relax to."""
    row = session.get(EngineReadback, engine_id)
    if row is not None:
        row.baseline = config.model_dump(mode="json")


def _is_an_action(session: Session, cause_id: str) -> bool:
    action_id = cause_id.partition(":")[0]
    return bool(action_id) and session.get(ActionRecord, action_id) is not None


def _row(session: Session, engine_id: str) -> EngineReadback:
    row = session.get(EngineReadback, engine_id)
    if row is None:
        row = EngineReadback(
            engine_id=engine_id, at=0.0, reachable=False, error="", state=None,
            capabilities=None, biases=None, seen_generation=None, baseline=None,
        )  # fmt: skip
        session.add(row)
    return row
