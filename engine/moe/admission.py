"""Capacity of one layer in one step: what each assignment becomes, alike on every rank.

One all-gather of the ranks' ledger entries gives the group's counts, and small steps' ballots with
them. When an expert overflows its group-wide capacity, every rank works out the same verdict for
all tokens from everyone's ballots (`engine.moe.ballot`). Under per-source-rank capacity each rank
decides on its own before the all-gather.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from contract.runtime_config import CapacityDomain, OverflowMode, OverflowPolicy
from engine.moe import ballot
from engine.moe.context import CapacityPlan
from engine.moe.ledger import TALLIES, Entry, Ledger, alone, read
from engine.moe.outcome import LedgerOutcome, domain_slots
from engine.moe.overflow import POLICIES, Verdict
from engine.moe.router import Router
from engine.moe.routing import Routing
from engine.moe.settled_gates import settled_gates
from engine.moe.spec import MoESpec
from engine.parallel.all_to_all import AllToAll
from engine.parallel.lookup import SlotLookup


@dataclass(frozen=True, slots=True)
class Admission:
    """What this rank does with its tokens, and what the group did.

    Attributes:
        slots: int64 [T_loc, k], physical slot of the group that computes it, -1 where dropped.
        slot_counts: int64 [S] of this rank's slots, where they are the experts and nothing changed.
        gates: FP32 [T_loc, k], 0 where dropped.
        rows: rows from rank to rank, [M][M]; none in a group of one.
        kept_mass, total_mass: FP32, gate weights of this rank kept, and before dropping.
        tokens: tokens of the step over the group.
        outcome: what became of them, group-wide, to be counted.
        compute_nanoseconds: of every rank, last step.
    """

    slots: Tensor
    slot_counts: Tensor | None
    gates: Tensor
    rows: list[list[int]]
    kept_mass: Tensor
    total_mass: Tensor
    tokens: int
    outcome: LedgerOutcome
    compute_nanoseconds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Admitter:
    """Applies a capacity plan to the routing of one layer.

    Attributes:
        spec, router: the layer's.
        lookup: where its experts lie.
        exchange: the layer's exchanges over the EP group.
    """

    spec: MoESpec
    router: Router
    lookup: SlotLookup
    exchange: AllToAll

    def admit(self, routing: Routing, bias: Tensor | None, plan: CapacityPlan) -> Admission:
        """Settle every assignment of this step; collective over the group."""
        counts = torch.bincount(routing.expert_ids.flatten(), minlength=self.spec.num_experts)
        ballots = self._ballots(routing, bias, plan)
        verdict = None
        if plan.domain is CapacityDomain.PER_SOURCE_RANK and ballots is not None:
            verdict = self._decide_alone(plan, ballots, counts)
        slots = self._slots(routing.expert_ids, verdict, plan, [len(routing.expert_ids)])
        ledger, carried = self._share(counts, verdict, slots, ballots, plan)
        if plan.domain is CapacityDomain.GLOBAL and ballots is not None:
            verdict, slots, ledger = self._decide_together(plan, slots, ledger, ballots, carried)
        gates, kept, total = settled_gates(self.router, routing, verdict)
        return Admission(
            slots=slots,
            slot_counts=counts if slots is routing.expert_ids else None,
            gates=gates,
            rows=[] if ledger.rows is None else ledger.rows.tolist(),
            kept_mass=kept,
            total_mass=total,
            tokens=sum(ledger.tokens),
            outcome=LedgerOutcome(plan, self.spec, ledger),
            compute_nanoseconds=ledger.compute_nanoseconds,
        )  # fmt: skip

    def _ballots(self, routing: Routing, bias: Tensor | None, plan: CapacityPlan) -> Tensor | None:
        """This rank's ballots where capacity is enforced."""
        if plan.capacity_factor is None or plan.mode is not OverflowMode.ENFORCED:
            return None
        return ballot.cast(routing, bias, POLICIES[plan.policy], self.router, self.spec)

    def _share(
        self, counts: Tensor, verdict: Verdict | None, slots: Tensor, ballots: Tensor | None,
        plan: CapacityPlan,
    ) -> tuple[Ledger, Tensor | None]:  # fmt: skip
        """The one all-gather of every layer: everyone's entries, and the carried ballots."""
        nanoseconds, tallies = self.exchange.compute_nanoseconds(), _tallies(verdict, counts)
        if self.exchange.group.size == 1:
            return alone(counts, tallies, len(slots), nanoseconds), None
        (rows_to,), executed = self._rows_and_executed(slots, [len(slots)])
        entry = Entry(
            counts=counts,
            rows_to=rows_to,
            executed_on=executed,
            tallies=tallies,
            tokens=len(slots),
            compute_nanoseconds=nanoseconds,
        )
        packed = entry.packed()
        if ballots is None or plan.domain is not CapacityDomain.GLOBAL:
            return read(self.exchange.gather_counts(packed), self.spec.num_experts), None
        vector = torch.cat([packed, ballot.carried(ballots)])
        gathered = self.exchange.gather_counts(vector)
        ledger = read(gathered[:, : packed.numel()], self.spec.num_experts)
        return ledger, gathered[:, packed.numel() :]

    def _exceeded(self, plan: CapacityPlan, counts: Tensor, tokens: Sequence[int]) -> int | None:
        """Capacity in slots when some expert of `counts` [E] exceeds it, else None."""
        if plan.capacity_factor is None:
            return None
        (limit,) = domain_slots(plan.capacity_factor, plan, self.spec, tokens)
        return limit if int(counts.max()) > limit else None

    def _judge(self, plan: CapacityPlan, ballots: Tensor, counts: Tensor, limit: int) -> Verdict:
        replicas = self.lookup.num_replicas
        contest = ballot.contest(ballots, counts, replicas, limit, self.spec.top_k)
        return POLICIES[plan.policy].decide(contest)

    def _decide_alone(self, plan: CapacityPlan, ballots: Tensor, counts: Tensor) -> Verdict | None:
        """Per-source-rank capacity: this rank's own verdict; None when nothing overflows."""
        limit = self._exceeded(plan, counts, [len(ballots)]) if len(ballots) else None
        return None if limit is None else self._judge(plan, ballots, counts, limit)

    def _decide_together(
        self, plan: CapacityPlan, slots: Tensor, ledger: Ledger, ballots: Tensor,
        carried: Tensor | None,
    ) -> tuple[Verdict | None, Tensor, Ledger]:  # fmt: skip
        """Group-wide capacity: the same verdict on every rank, then this rank's part of it."""
        tokens, group = list(ledger.tokens), self.exchange.group
        counts = ledger.expert_counts
        limit = self._exceeded(plan, counts, tokens)
        if limit is None:
            return None, slots, ledger
        everyone = None if carried is None else ballot.uncarried(carried, ledger.tokens)
        if everyone is None:
            everyone = group.all_gather_rows(ballots, tokens)
        agreed = self._judge(plan, everyone, counts, limit)
        slots = self._slots(agreed.expert_ids, agreed, plan, tokens)
        ledger = replace(ledger, tallies=_tallies(agreed, counts).unsqueeze(0))
        if group.size > 1:
            rows, executed = self._rows_and_executed(slots, tokens)
            ledger = replace(ledger, rows=torch.stack(rows), executed=executed.unsqueeze(0))
        start = sum(tokens[: group.rank])
        mine = slice(start, start + tokens[group.rank])
        own = replace(
            agreed, expert_ids=agreed.expert_ids[mine], kept=agreed.kept[mine],
            rerouted=agreed.rerouted[mine],
        )  # fmt: skip
        return own, slots[mine], ledger

    def _slots(
        self, expert_ids: Tensor, verdict: Verdict | None, plan: CapacityPlan, tokens: list[int]
    ) -> Tensor:
        """Physical slot of every assignment [Σ tokens, k]; copies take turns by a rank's row."""
        replica: Tensor | None = None if verdict is None else verdict.replica
        if self.lookup.has_replicas and replica is None:
            first = plan.policy is OverflowPolicy.SPILL
            rows = [torch.arange(count, device=expert_ids.device) for count in tokens]
            replica = torch.cat(rows).unsqueeze(-1) * (not first)
        final = expert_ids if verdict is None else verdict.expert_ids
        slots = self.lookup.slots(final, replica)
        return slots if verdict is None else slots.masked_fill(~verdict.kept, -1)

    def _rows_and_executed(self, slots: Tensor, tokens: list[int]) -> tuple[list[Tensor], Tensor]:
        """For each source rank int64 [M] rows that it sends, and int64 [M] assignments computed."""
        size = self.exchange.group.size
        ranks = self.lookup.ranks_of(slots) + 1
        hit = slots.new_zeros(len(slots), size + 1).scatter_(1, ranks, 1)[:, 1:]
        executed = torch.bincount(ranks.flatten(), minlength=size + 1)[1:]
        return [part.sum(0) for part in torch.split(hit, tokens)], executed


def _tallies(verdict: Verdict | None, counts: Tensor) -> Tensor:
    """int64 [4], `TALLIES`."""
    if verdict is None:
        return _no_tallies(counts.device)
    silent = 0
    if verdict.num_dropped >= verdict.kept.shape[1]:
        silent = int((~verdict.kept).all(-1).sum())
    tallies = [verdict.num_rerouted, verdict.num_spilled, verdict.num_dropped, silent]
    return torch.tensor(tallies, dtype=torch.int64, device=counts.device)


@lru_cache(maxsize=8)
def _no_tallies(device: torch.device) -> Tensor:
    with torch.inference_mode(mode=False):
        return torch.zeros(len(TALLIES), dtype=torch.int64, device=device)
