"""Commits of live plans: prepared on every rank out of band, then made live by the next step.

One commit is in preparation at a time, in order of arrival; steps go on meanwhile.
"""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field

from contract.admin import RankAck
from engine.errors import EngineError, RefusedError
from engine.llm_engine.exchange import CommitReceipt, LivePlan
from engine.worker.messages import Discard, Prepare, Prepared


@dataclass(frozen=True, slots=True)
class LiveEdition:
    """A plan under the number by which steps name it."""

    edition: int
    plan: LivePlan


@dataclass(slots=True)
class _Pending:
    live: LiveEdition
    future: Future[CommitReceipt]
    missing: set[int] = field(default_factory=set)


class Commits:
    """Editions of one engine.

    Args:
        num_ranks: ranks that must prepare.
        first: what ranks run from their start.
    """

    def __init__(self, num_ranks: int, first: LivePlan) -> None:
        self._num_ranks = num_ranks
        self._editions = 0
        self.live = LiveEdition(0, first)
        self._queue: deque[tuple[LivePlan, Future[CommitReceipt]]] = deque()
        self._preparing: _Pending | None = None
        self._ready: _Pending | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the next step will switch, so that an idle engine should run one."""
        return self._ready is not None

    def add(self, plan: LivePlan, future: Future[CommitReceipt]) -> None:
        """Queue a commit."""
        self._queue.append((plan, future))

    def next_prepare(self) -> Prepare | None:
        """What every rank must prepare now, once for each commit."""
        if not self._queue or self._preparing is not None or self._ready is not None:
            return None
        plan, future = self._queue.popleft()
        self._editions += 1
        live = LiveEdition(self._editions, plan)
        self._preparing = _Pending(live, future, set(range(self._num_ranks)))
        return Prepare(
            edition=live.edition, generation=plan.generation, config=plan.config,
            bias=plan.bias, lkg_bias=plan.lkg_bias, reload_bias=plan.reload_bias,
            physical_to_logical=plan.physical_to_logical,
        )  # fmt: skip

    def prepared(self, rank: int, message: Prepared) -> Discard | None:
        """A rank's acknowledgement; a refusal fails the commit and every rank must forget it."""
        pending = self._preparing
        if pending is None or message.edition != pending.live.edition:
            return None
        if message.error is not None:
            self._preparing = None
            pending.future.set_exception(
                RefusedError(
                    f"rank {rank} cannot prepare generation {pending.live.plan.generation}: "
                    f"{message.error}",
                    field="rank", value=rank,
                )
            )  # fmt: skip
            return Discard(message.edition)
        pending.missing.discard(rank)
        if not pending.missing:
            self._preparing, self._ready = None, pending
        return None

    def for_next_step(self) -> LiveEdition:
        """The edition that the next step names."""
        return self.live if self._ready is None else self._ready.live

    def stepped(self, step: int, edition: LiveEdition, generations: dict[int, int]) -> None:
        """A step ran on all ranks under `edition`; the first one answers its commit.

        Args:
            step: its id.
            edition: what it named.
            generations: the generation that each rank says it ran.
        """
        pending = self._ready
        if pending is None or pending.live is not edition:
            return
        self._ready = None
        self.live = edition
        acks = tuple(
            RankAck(rank=rank, generation=generation, step=step)
            for rank, generation in sorted(generations.items())
        )
        pending.future.set_result(CommitReceipt(effective_at_step=step, ranks=acks))

    def fail(self, error: EngineError) -> None:
        """The engine is going down: no commit will be answered otherwise."""
        pending = [each.future for each in (self._preparing, self._ready) if each is not None]
        for future in [*pending, *(future for _, future in self._queue)]:
            future.set_exception(error)
        self._queue.clear()
        self._preparing = self._ready = None
