"""The one writer of the engine's governed state: every mutation passes here, one at a time.

Order of a mutation: fencing epoch → replay → If-Match → freeze → what it does (for a config:
`live_config`), which stores its answer in the same transaction as its effect.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from pydantic import ValidationError

from contract.admin import Cause, CauseKind, ConfigState, Freeze
from contract.headers import FENCING_EPOCH, IF_MATCH, OPERATOR_EPOCH
from engine.errors import EngineError, FrozenError, PreconditionError, StaleEpochError
from engine.server.answers import Answer, Ticket, first_answer, remember_answer
from engine.server.database import Database
from engine.server.leases import HeldLease, expired, with_knob
from engine.server.live_config import Change, LiveConfig

ANY_GENERATION = "*"
LEASE_RETRY_SECONDS = 5.0
"""A restore that the engine refuses now is tried again this much later."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Guard:
    """What a mutation carries beside its body."""

    if_match: str
    epoch: int
    ticket: Ticket


class Governor:
    """Guards, freeze and lease expiry around `live`; `lock` is held for a whole mutation."""

    def __init__(self, live: LiveConfig, database: Database) -> None:
        self.live = live
        self.lock = asyncio.Lock()
        self._database = database
        self._frozen_at: float | None = None
        self._tasks: set[asyncio.Task[Answer]] = set()

    @property
    def is_frozen(self) -> bool:
        """Whether every mutation but an unfreeze is refused."""
        return self.live.configs.freeze_reason != ""

    def state(self) -> ConfigState:
        """The live generation and what guards it."""
        configs = self.live.configs
        now = self.live.clock.monotonic() if self._frozen_at is None else self._frozen_at
        return ConfigState(
            document=configs.current, etag=self.live.etag, epoch_seen=configs.epoch_seen,
            frozen=self.is_frozen, freeze_reason=configs.freeze_reason,
            leases=tuple(lease.shown(now) for lease in self.live.leases.values()),
        )  # fmt: skip

    def started(self) -> None:
        """Take up the stored freeze once a generation is live."""
        if self.is_frozen:
            self._frozen_at = self.live.clock.monotonic()
        self._annotate()

    async def mutate(
        self,
        guard: Guard,
        act: Callable[[Ticket], Awaitable[Answer]],
        *,
        while_frozen: bool = False,
        any_generation: bool = False,
    ) -> Answer:
        """Run `act` under the lock unless the guard forbids it; `act` stores its own answer.

        It runs to its end even when the caller goes away. `any_generation` lets `If-Match: *`
        through, for mutations that do not build on the config.
        """
        task = asyncio.create_task(
            self._guarded(guard, act, while_frozen=while_frozen, any_generation=any_generation)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _guarded(
        self,
        guard: Guard,
        act: Callable[[Ticket], Awaitable[Answer]],
        *,
        while_frozen: bool,
        any_generation: bool,
    ) -> Answer:
        async with self.lock:
            replay = await self._pass(guard, any_generation=any_generation)
            if replay is not None:
                return replay
            if not while_frozen:
                self.check_thawed()
            return await act(guard.ticket)

    async def peek(self, guard: Guard, *, any_generation: bool) -> Answer | None:
        """Check a guard before long work: the first answer of a replay, None to go on, or raise."""
        async with self.lock:
            replay = await self._pass(guard, any_generation=any_generation)
            if replay is None:
                self.check_thawed()
            return replay

    async def _pass(self, guard: Guard, *, any_generation: bool) -> Answer | None:
        self.check_epoch(guard.epoch)
        if guard.epoch > self.live.configs.epoch_seen:
            await asyncio.to_thread(self.live.configs.see_epoch, guard.epoch)
            self._annotate()
        replay = first_answer(self._database, guard.ticket)
        if replay is None and not (any_generation and guard.if_match == ANY_GENERATION):
            self.check_match(guard.if_match)
        return replay

    def check_epoch(self, epoch: int) -> None:
        """Refuse a caller that a higher epoch has replaced; a human's epoch is not checked."""
        seen = self.live.configs.epoch_seen
        if epoch != OPERATOR_EPOCH and epoch < seen:
            raise StaleEpochError(
                f"{FENCING_EPOCH} {epoch} is below {seen}, which this engine has seen: "
                "another control plane took over",
                field=FENCING_EPOCH, value=epoch, bound=f">= {seen}", current=seen,
            )  # fmt: skip

    def check_match(self, if_match: str) -> None:
        """Refuse a caller that builds on another generation than the live one."""
        etag = self.live.etag
        if if_match != etag:
            raise PreconditionError(
                f"{IF_MATCH} {if_match} is stale: the live generation is {etag}",
                field=IF_MATCH, value=if_match, bound=etag, current=etag,
            )  # fmt: skip

    def check_thawed(self) -> None:
        """Refuse while frozen."""
        if self.is_frozen:
            raise FrozenError(
                f"the engine is frozen ({self.live.configs.freeze_reason}); unfreeze it first",
                field="frozen", value=True, bound=False,
            )  # fmt: skip

    async def store_answer(self, ticket: Ticket, answer: Answer) -> None:
        """Remember the answer of a mutation whose effect is not in the database."""

        def write() -> None:
            with self._database.transaction() as connection:
                remember_answer(connection, ticket, answer)

        await asyncio.to_thread(write)

    async def freeze(self, body: Freeze, ticket: Ticket) -> Answer:
        """Refuse every later mutation but an unfreeze; lease time stands still."""
        answer = self.live.answer()
        await asyncio.to_thread(
            self.live.configs.set_freeze, body.reason, ticket=ticket, answer=answer
        )
        _log.warning("frozen by %r: %r", body.actor or "an operator", body.reason)
        if self._frozen_at is None:
            self._frozen_at = self.live.clock.monotonic()
        self._annotate()
        return answer

    async def unfreeze(self, ticket: Ticket) -> Answer:
        """Accept mutations again; lease time runs on from where it stood."""
        answer = self.live.answer()
        await asyncio.to_thread(self.live.configs.set_freeze, "", ticket=ticket, answer=answer)
        if self._frozen_at is not None:
            stood = self.live.clock.monotonic() - self._frozen_at
            leases = self.live.leases
            self.live.leases = {knob: lease.later(stood) for knob, lease in leases.items()}
            self._frozen_at = None
        self._annotate()
        return answer

    async def expire_leases(self) -> int:
        """Restore the knob of every lease whose time is over, each in a generation of its own."""
        async with self.lock:
            if self.is_frozen:
                return 0
            over = expired(self.live.leases, self.live.clock.monotonic())
            return sum([await self._restore(lease) for lease in over])

    async def _restore(self, lease: HeldLease) -> bool:
        cause = Cause(
            kind=CauseKind.LEASE, id=lease.knob,
            reason=f"the lease of {lease.holder} on {lease.knob} ended",
        )  # fmt: skip
        try:
            config = with_knob(self.live.configs.current.config, lease.knob, lease.restore)
            await self.live.commit(Change(config=config, cause=cause), None)
        except (ValidationError, EngineError) as error:
            _log.warning("the lease on %s cannot be restored now: %s", lease.knob, error)
            retry_at = self.live.clock.monotonic() + LEASE_RETRY_SECONDS
            self.live.leases[lease.knob] = replace(lease, deadline=retry_at)
            return False
        return True

    def _annotate(self) -> None:
        epoch = self.live.configs.epoch_seen
        self.live.core.annotate(epoch_seen=epoch, frozen=self.is_frozen)

    async def close(self) -> None:
        """Let running mutations end, then close the database."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        async with self.lock:
            self._database.close()
