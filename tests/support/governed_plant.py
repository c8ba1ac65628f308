"""A whole governor over plants, driven tick by tick on a manual clock; no thread, no scheduler."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pydantic import SecretStr
from sqlalchemy import literal

from controlplane.actuator import action_store
from controlplane.actuator.action import Action
from controlplane.actuator.fence import Fence
from controlplane.audit import access_changes
from controlplane.auth.engines import EngineRegistry
from controlplane.clock import ManualClock
from controlplane.db.database import Database
from controlplane.history.history import History
from controlplane.metrics import Instruments
from controlplane.scheduling.governor import Governor
from controlplane.scheduling.lease import Lease
from controlplane.settings import EngineSettings, GovernorSettings, HistorySettings
from tests.support.contract_engine import ContractEngine
from tests.support.contract_engine_app import contract_engine_app
from tests.support.databases import without_fsync
from tests.support.loopback_server import Switchboard
from tests.support.plant import Plant


@dataclass
class GovernedPlant:
    """Engines, their frames, and the governor that watches them."""

    database: Database
    clock: ManualClock
    plants: dict[str, Plant]
    governor: Governor
    instruments: Instruments
    registry: EngineRegistry

    @property
    def plant(self) -> Plant:
        return self.plants["engine-0"]

    @property
    def engine(self) -> ContractEngine:
        return self.plant.engine

    @property
    def fence(self) -> Fence:
        lease = self.governor.leader.lease
        if lease.fence() is None:
            lease.tend()
        fence = lease.fence()
        assert fence is not None
        return fence

    def warm(self, seconds: int = 40) -> None:
        """Healthy frames, then one look."""
        self.clock.advance(seconds)
        for plant in self.plants.values():
            plant.emit(self.clock.now(), seconds)
        self.beat(tend=True)

    def run(self, seconds: int, *, every: int = 4, frames: bool = True) -> None:
        """Frames of each engine, evaluate, reconcile, every so often; read back now and then."""
        for second in range(0, seconds, every):
            self.clock.advance(every)
            if frames:
                for plant in self.plants.values():
                    plant.emit(self.clock.now(), every)
            self.beat(tend=second % 12 == 0)

    def beat(self, *, tend: bool = False) -> None:
        fence = self.fence
        if tend:
            self.governor.tend(fence)
        self.governor.evaluate_due(fence)
        self.governor.reconcile(fence)

    def actions(self) -> list[Action]:
        """Oldest first."""
        with self.database.read() as session:
            return action_store.find(session)[::-1]


@contextmanager
def governed_plant(
    database: Database,
    host: tuple[Switchboard, str],
    *,
    engines: int = 1,
    policy: str = "fast",
    group: str = "group-0",
) -> Iterator[GovernedPlant]:
    """A governor under a policy over engines of one group."""
    switchboard, base_url = host
    without_fsync(database)
    clock = ManualClock(1_700_000_040.0)
    history = History(database, HistorySettings(), clock)
    with ExitStack() as stack:
        plants, settings = {}, []
        for index in range(engines):
            name = f"engine-{index}"
            engine = ContractEngine(engine_id=name, group=group, now=clock.now)
            url = stack.enter_context(switchboard.mounted(base_url, contract_engine_app(engine)))
            plants[name] = Plant(engine, history)
            settings.append(
                EngineSettings(id=name, url=url, admin_token=SecretStr(engine.token), group=group)
            )
        registry = EngineRegistry(database, clock, settings, access_changes.record)
        registry.sync()
        instruments = Instruments()
        lease = Lease(database, clock, "me", now=lambda _db: literal(clock.now()))
        governor = Governor(
            database, clock, history, registry, instruments, GovernorSettings(policy=policy),
            holder="me", lease=lease,
        )  # fmt: skip
        stack.callback(governor.stop)
        yield GovernedPlant(database, clock, plants, governor, instruments, registry)
