"""A governor over one or two contract engines, on SQLite, with a clock that moves when told."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from controlplane.actuator import action_store
from controlplane.actuator.action import (
    Action,
    Change,
    ChangeKind,
    Phase,
    Target,
    Timing,
)
from controlplane.actuator.actuator import Actuator
from controlplane.actuator.fence import LEASE_NAME, Fence
from controlplane.actuator.http_engine_admin import HttpEngineAdmin
from controlplane.actuator.models import LeaderLease
from controlplane.actuator.world import Telemetry
from controlplane.clock import ManualClock
from controlplane.db.database import Database
from controlplane.errors import NotFoundError
from controlplane.policy.knob import Knob, Mode
from controlplane.policy.verdict import Verdict, VerifyResult
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.databases import without_fsync
from tests.support.loopback_server import Switchboard

PASS = VerifyResult(verdict=Verdict.PASS, message="better", rows=())
FAIL = VerifyResult(verdict=Verdict.FAIL, message="TPOT worse by 30 %", rows=(), final=True)
UNSURE = VerifyResult(verdict=Verdict.INCONCLUSIVE, message="n is 12, needs 40", rows=())


@dataclass
class Words:
    """Evidence whose verdict a test sets; telemetry follows the engines at once."""

    engines: dict[str, ContractEngine]
    word: VerifyResult = PASS
    deaf: bool = False

    def telemetry(self, engine_id: str, at: float) -> Telemetry:
        if self.deaf:
            return Telemetry()
        generation = self.engines[engine_id].document.generation
        return Telemetry(generation=generation, fresh=True, request_p99_seconds=1.0)

    def verification(self, action: Action, at: float) -> VerifyResult:
        return self.word


@dataclass
class Admins:
    by_id: dict[str, HttpEngineAdmin]

    def of(self, engine_id: str) -> HttpEngineAdmin:
        if engine_id not in self.by_id:
            raise NotFoundError(f"engine {engine_id!r} is not configured", field="engine_id")
        return self.by_id[engine_id]


@dataclass
class Ground:
    """Everything that a test of acting needs."""

    database: Database
    clock: ManualClock
    engines: dict[str, ContractEngine]
    admins: Admins
    words: Words
    transitions: list[tuple[Phase | None, Phase]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with self.database.write() as session:
            session.add(LeaderLease(name=LEASE_NAME, holder="me", epoch=1, expires_at=0.0))
        self.fence = Fence(holder="me", epoch=1, still_leads=lambda: True)
        self.actuator = self.fresh_actuator()

    def fresh_actuator(self, database: Database | None = None) -> Actuator:
        def note(before: Action | None, after: Action) -> None:
            self.transitions.append((before.phase if before else None, after.phase))

        return Actuator(
            database or self.database, self.clock, self.admins, self.words, listeners=(note,)
        )

    @property
    def engine(self) -> ContractEngine:
        return self.engines["engine-0"]

    def propose(self, **changes) -> str:
        action = make_action(self.clock.now(), tuple(self.engines), **changes)
        with self.database.write() as session:
            action_store.insert(session, action, epoch=1)
        return action.action_id

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.actuator.run(self.fence)

    def action(self, action_id: str) -> Action:
        with self.database.read() as session:
            return action_store.load(session, action_id)[0]

    def run_out(self, action_id: str, *, ticks: int = 40, seconds: float = 20.0) -> Action:
        """Tick until the action is final."""
        action = self.action(action_id)
        for _ in range(ticks):
            self.tick(seconds)
            action = self.action(action_id)
            if action.is_final:
                return action
        raise AssertionError(f"still {action.phase} after {ticks} ticks: {action.note}")


RAISE_C = Change(
    kind=ChangeKind.KNOB, knob=Knob.CAPACITY_FACTOR, before="1.25", after="1.5", direction=1
)


def make_action(at, engine_ids=("engine-0",), change=RAISE_C, **changes) -> Action:
    values = {
        "action_id": "act-1", "decision_id": "dec-1", "engine_id": engine_ids[0],
        "group": "group-0", "policy": "default", "mode": Mode.AUTO, "change": change,
        "timing": Timing(settle=30, verify=60),
        "targets": tuple(Target(engine_id=name) for name in engine_ids),
        "created_by": "governor", "created_at": at, "phase": Phase.PROPOSED, "phase_since": at,
        "reason": "overflow_breach",
    }  # fmt: skip
    return Action.model_validate({**values, **changes})


def bias_change(engine: ContractEngine) -> Change:
    return Change(
        kind=ChangeKind.BIAS_ROLLBACK, knob=Knob.ROUTER_BIAS, before=engine.live_bias,
        after=engine.last_known_good,
    )  # fmt: skip


@contextmanager
def make_ground(database: Database, count: int, host: tuple[Switchboard, str]) -> Iterator[Ground]:
    """A governor over `count` engines of one group, each served on loopback."""
    switchboard, base_url = host
    without_fsync(database)
    clock = ManualClock()
    engines = {
        f"engine-{i}": ContractEngine(engine_id=f"engine-{i}", now=clock.now) for i in range(count)
    }
    admins = Admins({})
    with ExitStack() as stack:
        for name, engine in engines.items():
            url = stack.enter_context(switchboard.mounted(base_url, contract_engine_app(engine)))
            admin = HttpEngineAdmin(name, url, engine.token, change_timeout_seconds=2.0)
            admins.by_id[name] = admin
            stack.callback(admin.close)
        yield Ground(database, clock, engines, admins, Words(engines))
