"""The commit protocol: how a config becomes live on every rank and durable, or neither.

check → intent on disk → `core.commit` on every rank → committed on disk. A crash between any two
steps leaves the last committed generation as the truth. The caller holds the governor's lock.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from contract.admin import BiasInfo, BiasStatus, Cause, ConfigDocument, MutationResult
from contract.headers import config_etag
from contract.runtime_config import BiasUpdate, RuntimeConfig
from engine.errors import BadRequestError, RefusedError, StateError
from engine.server.answers import Answer, Ticket
from engine.server.bias_file import content_hash
from engine.server.bias_store import BiasStore
from engine.server.clock import Clock
from engine.server.config_store import ConfigStore
from engine.server.core import Bias, CommitReceipt, EngineCore, LivePlan
from engine.server.leases import HeldLease, leases_after
from engine.server.placement_store import PlacementStore


@dataclass(frozen=True, slots=True)
class Change:
    """A wanted config and why; `reload_bias` puts the live bias back to the configured one."""

    config: RuntimeConfig
    cause: Cause
    lease_seconds: Mapping[str, float] = field(default_factory=dict)
    reload_bias: bool = False


class LiveConfig:
    """The generation that the ranks run, and the stores that its hashes point into."""

    def __init__(
        self,
        core: EngineCore,
        configs: ConfigStore,
        biases: BiasStore,
        placements: PlacementStore,
        clock: Clock,
    ) -> None:
        self.core = core
        self.configs = configs
        self.biases = biases
        self.placements = placements
        self.clock = clock
        self.leases: dict[str, HeldLease] = {}
        self._receipt = CommitReceipt(effective_at_step=0, ranks=())

    @property
    def etag(self) -> str:
        """The ETag of the live generation."""
        document = self.configs.current
        return config_etag(document.generation, document.config_hash)

    def check(self, config: RuntimeConfig) -> None:
        """Everything that can be wrong with a config on this engine: references, then safety.

        Raises:
            NotFoundError, BadRequestError, CorruptSnapshotError, RefusedError: by what is wrong.
        """
        self.placements.get(config.placement)
        has_bias = self.core.model.checkpoint_bias is not None
        if has_bias != (config.router_bias is not None):
            raise BadRequestError(
                f"config.router_bias is {config.router_bias}, but this model "
                + ("has a router bias" if has_bias else "has none"),
                field="config.router_bias", value=config.router_bias,
                bound="a stored content hash" if has_bias else None,
            )  # fmt: skip
        if config.router_bias is not None:
            self.biases.load(config.router_bias)
        elif config.bias_update is BiasUpdate.ON:
            raise RefusedError(
                "config.bias_update is on, but this model has no router bias to update",
                field="config.bias_update", value="on", bound="off",
            )  # fmt: skip
        self.core.check(config)

    def leases_with(self, change: Change) -> dict[str, HeldLease]:
        """The leases once a change is live; raises for a lease that makes no sense."""
        return leases_after(
            self.leases, self.configs.current.config, change.config, change.lease_seconds,
            holder=f"{change.cause.kind}:{change.cause.id or change.cause.actor}",
            now=self.clock.monotonic(),
        )  # fmt: skip

    async def commit(self, change: Change, ticket: Ticket | None) -> Answer:
        """Make a change live and durable, with the answer to its ticket.

        A change that changes nothing mints no generation; it may renew leases.
        """
        before = self.configs.current.config
        leases = self.leases_with(change)
        if change.config == before and not change.reload_bias:
            answer = self.answer(renewed=bool(change.lease_seconds))
            await asyncio.to_thread(self.configs.renew, leases, ticket=ticket, answer=answer)
            self.leases = leases
            return answer
        reload_bias = change.reload_bias or _bias_moves(before, change.config)
        return await self._mint(change, leases, ticket, reload_bias=reload_bias)

    async def first(self, config: RuntimeConfig, cause: Cause) -> None:
        """Mint a generation at start, when the ranks run none yet."""
        await self._mint(Change(config=config, cause=cause), {}, None, reload_bias=True)

    async def resume(self) -> None:
        """Make the stored generation live at start; its leases hold again."""
        self.check(self.configs.current.config)
        await self.resend(reload_bias=True)
        self.leases = self.configs.leases(self.clock.monotonic())

    async def resend(self, *, reload_bias: bool, good: BiasInfo | None = None) -> None:
        """Send the ranks the stored generation: at start, or with another last known good."""
        plan = self.plan(self.configs.current, reload_bias=reload_bias, good=good)
        self._receipt = await self.core.commit(plan)

    async def _mint(
        self,
        change: Change,
        leases: dict[str, HeldLease],
        ticket: Ticket | None,
        *,
        reload_bias: bool,
    ) -> Answer:
        self.check(change.config)
        document = ConfigDocument(
            generation=self.configs.next_generation, config_hash=change.config.content_hash(),
            config=change.config, cause=change.cause,
            parent=None if self.configs.is_empty else self.configs.current.generation,
            committed_unix_seconds=self.clock.now(), effective_at_step=0,
        )  # fmt: skip
        plan = self.plan(document, reload_bias=reload_bias)
        await asyncio.to_thread(self.configs.begin, document)
        try:
            receipt = await self.core.commit(plan)
        except BaseException:
            await asyncio.to_thread(self.configs.abandon)
            raise
        document = document.model_copy(update={"effective_at_step": receipt.effective_at_step})
        answer = _answer(document, receipt)
        await self._store(document, leases, ticket, answer)
        self.leases = leases
        self._receipt = receipt
        self._bake(document.config.router_bias)
        return answer

    async def _store(
        self,
        document: ConfigDocument,
        leases: Mapping[str, HeldLease],
        ticket: Ticket | None,
        answer: Answer,
    ) -> None:
        try:
            await asyncio.to_thread(
                self.configs.commit, document, leases, ticket=ticket, answer=answer
            )
        except StateError:
            # The ranks run what the disk does not know: take them back before saying no.
            if not self.configs.is_empty:
                await self.resend(reload_bias=True)
            raise

    def plan(
        self, document: ConfigDocument, *, reload_bias: bool, good: BiasInfo | None = None
    ) -> LivePlan:
        """The tensors that a generation's hashes name; `good` overrides the last known good."""
        config = document.config
        configured = config.router_bias
        good = good or self.biases.last_known_good
        return LivePlan(
            generation=document.generation, config=config, reload_bias=reload_bias,
            bias=None if configured is None else self.biases.load(configured),
            bias_version=0 if configured is None else self.biases.info(configured).version,
            lkg_bias=None if good is None else self.biases.load(good.bias_hash),
            lkg_hash=None if good is None else good.bias_hash,
            lkg_version=0 if good is None else good.version,
            physical_to_logical=self.placements.slots(config.placement),
        )  # fmt: skip

    def _bake(self, bias_hash: str | None) -> None:
        if bias_hash and self.biases.info(bias_hash).status is BiasStatus.CANDIDATE:
            self.biases.set_status(bias_hash, BiasStatus.BAKING)

    def answer(self, *, renewed: bool = False) -> Answer:
        """The answer of a mutation that leaves the live generation as it is."""
        return _answer(self.configs.current, self._receipt, renewed=renewed)

    async def bias_now(self) -> tuple[Bias | None, str | None]:
        """The bias of rank 0 as it is now, and its content hash."""
        bias = await self.core.live_bias()
        return bias, None if bias is None else content_hash(bias)


def _bias_moves(before: RuntimeConfig, after: RuntimeConfig) -> bool:
    """Whether the live bias must go (back) to the configured one."""
    turned_off = before.bias_update is BiasUpdate.ON and after.bias_update is BiasUpdate.OFF
    return turned_off or before.router_bias != after.router_bias


def _answer(document: ConfigDocument, receipt: CommitReceipt, *, renewed: bool = False) -> Answer:
    etag = config_etag(document.generation, document.config_hash)
    result = MutationResult(
        observed_generation=document.generation, config_hash=document.config_hash, etag=etag,
        effective_at_step=receipt.effective_at_step, ranks=receipt.ranks, renewed=renewed,
    )  # fmt: skip
    return Answer(status=200, body=result.model_dump_json(), etag=etag)
