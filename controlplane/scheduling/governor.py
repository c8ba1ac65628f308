"""The governor of one process: wires history, policy and actuator, and runs them while it leads."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.orm import Session

from contract.frame import FrameHeader
from controlplane.actuator import policy_store
from controlplane.actuator.actuator import Actuator
from controlplane.actuator.engine_admins import HttpEngineAdmins
from controlplane.actuator.fence import Fence
from controlplane.actuator.governance import Governance
from controlplane.actuator.groups import Groups
from controlplane.actuator.halts import Halts
from controlplane.actuator.lease_renewal import may_be_due, renew
from controlplane.actuator.operations import Operations
from controlplane.actuator.readback import Readback
from controlplane.auth.engines import EngineRegistry
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.history.history import History
from controlplane.history.newest import NewestFrame
from controlplane.metrics import Instruments
from controlplane.policy.policy import Policy
from controlplane.scheduling.alert_work import AlertWork
from controlplane.scheduling.evaluator import Evaluator
from controlplane.scheduling.evidence import HistoryEvidence
from controlplane.scheduling.gauges import AuditCount, EvaluationGauges
from controlplane.scheduling.inbox import Inbox
from controlplane.scheduling.jobs import Job, Jobs
from controlplane.scheduling.leader import Leader
from controlplane.scheduling.lease import Lease
from controlplane.scheduling.measuring import HistoryMeasuring
from controlplane.scheduling.references import ENOUGH_WINDOWS, LoadReferences
from controlplane.scheduling.snapshots import SnapshotBuilder
from controlplane.scheduling.windows import AlignedWindows
from controlplane.settings import GovernorSettings

LOGGER = logging.getLogger(__name__)
BEAT_SECONDS = 1.0
TEND_SECONDS = 10.0
BIASES_SECONDS = 30.0
"""Bias versions are read again this often, and in the next pass when a frame tells of another."""


class Governor:
    """Everything that watches and acts. `start` claims the lease; `stop` gives it back.

    `governance` is what routes and pages act through; `inbox` and `leader` are this layer's own.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        history: History,
        registry: EngineRegistry,
        instruments: Instruments,
        settings: GovernorSettings,
        *,
        holder: str,
        more_jobs: Sequence[Job] = (),
        lease: Lease | None = None,
        why_unread: Callable[[str], str] = lambda _engine_id: "",
    ) -> None:
        self.settings = settings
        self.database = database
        self._clock = clock
        self._history = history
        self.admins = HttpEngineAdmins(registry)
        self.readback = Readback(database, clock, self.admins)
        self.groups = Groups(registry, self.readback)
        self.inbox = Inbox(database, clock, instruments)
        gauges = EvaluationGauges(instruments)
        windows = AlignedWindows(history)
        self.references = LoadReferences(database, clock, history, windows)
        builder = self._builder = SnapshotBuilder(
            database, clock, history, windows, self.references
        )
        self.evaluator = Evaluator(
            database, self.admins, self.readback, builder, self.groups, settings.policy, gauges,
            listeners=(gauges.on_phase,),
        )  # fmt: skip
        self.actuator = Actuator(
            database, clock, self.admins, HistoryEvidence(history, windows),
            listeners=(gauges.on_phase,),
        )  # fmt: skip
        self.operations = Operations(
            database, clock, self.admins, self.groups,
            HistoryMeasuring(database, builder, self.references), settings.policy,
        )  # fmt: skip
        self.halts = Halts(database, clock, self.admins, self.groups, self.readback)
        self.governance = Governance(
            database=database, clock=clock, admins=self.admins, groups=self.groups,
            operations=self.operations, halts=self.halts, readback=self.readback,
            default_policy=settings.policy, why_unread=why_unread,
        )  # fmt: skip
        self._alerts = AlertWork(self.inbox, self.evaluator, self.groups, settings.alerts)
        self._audited = AuditCount(instruments)
        self._due: dict[str, float] = {}
        self._biases_read: dict[str, tuple[object, float]] = {}
        self._pool = ThreadPoolExecutor(settings.evaluate_threads, "evaluate")
        registry.on_removed.append(self._forget)
        jobs = (*self._jobs(), *more_jobs)
        self.leader = Leader(
            lease or Lease(database, clock, holder), instruments,
            lambda mandate, fenced: Jobs(jobs, clock, instruments, mandate, fenced),
        )  # fmt: skip

    def check(self) -> None:
        """Refuse settings that name a policy which the database does not know.

        Raises:
            InvalidInputError: there is no policy of that name.
            StorageError: the database does not answer, or its schema is missing.
        """
        with self.database.read() as session:
            policy_store.check_named(session, self.settings.named_policies())

    def start(self) -> None:
        """Claim the lease, unless the settings say that this process never leads."""
        if self.settings.enabled:
            self.leader.start()

    def stop(self) -> None:
        """Finish what runs, and let a successor in."""
        self.leader.stop()
        self._pool.shutdown()
        self.admins.close()

    def _jobs(self) -> tuple[Job, ...]:
        return (
            Job("evaluate", BEAT_SECONDS, self.evaluate_due),
            Job("reconcile", BEAT_SECONDS, self.reconcile),
            Job("alerts", BEAT_SECONDS, self._alerts.run),
            Job("freezes", BEAT_SECONDS, lambda fence: self.halts.expire(fence.epoch)),
            Job("read-back", TEND_SECONDS, self.tend),
        )

    def reconcile(self, fence: Fence) -> None:
        """Carry every open action forward."""
        self.actuator.run(fence)

    def evaluate_due(self, fence: Fence) -> None:
        """Evaluate the engines whose policy's tick has come, side by side."""
        now = self._clock.monotonic()
        due = [name for name in self.groups.everyone() if self._due.get(name, 0.0) <= now]
        policies = {engine_id: self.evaluator.governed(engine_id).policy for engine_id in due}
        for engine_id, policy in policies.items():
            self._due[engine_id] = now + policy.tick_seconds - BEAT_SECONDS / 4
        self._side_by_side(due, lambda name: self._evaluate(name, fence, policies[name]))

    def _evaluate(self, engine_id: str, fence: Fence, policy: Policy) -> None:
        # Does nothing but after the loss of a database: engines remember newer epochs.
        self.leader.lease.outrank(self.readback.epoch_seen(engine_id) - 1)
        self.evaluator.evaluate(engine_id, fence, policy=policy)

    def tend(self, fence: Fence) -> None:
        """Capabilities, bias versions and payloads, leases and references of every engine."""
        self._audited.show(self.database)
        self._side_by_side(self.groups.governed(), lambda engine_id: self._tend(engine_id, fence))

    def _tend(self, engine_id: str, fence: Fence) -> None:
        newest = self._history.newest(engine_id)
        self._read_biases(engine_id, newest, fence)
        policy = self.evaluator.governed(engine_id).policy
        now = self._clock.now()
        seconds = policy.lease_seconds
        if may_be_due(self.readback.known(engine_id), now, lease_seconds=seconds):
            silent = None if newest is None else newest.age(now)
            renew(self.admins, engine_id, fence, lease_seconds=seconds, silent_seconds=silent)
        lkg = None if newest is None else newest.header.lkg_bias
        if lkg is not None and self.references.lacks(engine_id, lkg):
            self.references.capture(
                engine_id, lkg, author="engine", enough=ENOUGH_WINDOWS, check=fence.check,
                seconds=policy.detectors.window_seconds,
            )  # fmt: skip

    def _forget(self, session: Session, engine_id: str) -> None:
        self.readback.forget(session, engine_id)
        self.groups.forget(engine_id)
        self._builder.forget(engine_id)
        self._biases_read.pop(engine_id, None)

    def _read_biases(self, engine_id: str, newest: NewestFrame | None, fence: Fence) -> None:
        told = None if newest is None else _biases_told(newest.header)
        now = self._clock.monotonic()
        seen, due = self._biases_read.get(engine_id, (None, now))
        if (seen != told or due <= now) and self.readback.refresh_biases(engine_id, fence):
            self._biases_read[engine_id] = (told, now + BIASES_SECONDS)

    def _side_by_side(self, engines: Sequence[str], run: Callable[[str], object]) -> None:
        """Every engine has its turn; the first failure is raised once all have had it."""
        futures = [self._pool.submit(run, engine_id) for engine_id in engines]
        failures = [failure for future in futures if (failure := future.exception()) is not None]
        for failure in failures[1:]:
            LOGGER.error("one more engine failed: %s", failure)
        if failures:
            raise failures[0]


def _biases_told(header: FrameHeader) -> tuple[object, ...]:
    """What changes in a frame's header when a bias is loaded, updated, rolled back or marked."""
    return (
        header.boot_id, header.configured_bias, header.live_bias, header.lkg_bias,
        header.bias_version, header.lkg_bias_version,
    )  # fmt: skip
