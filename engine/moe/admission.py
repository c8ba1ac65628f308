"""Capacity of one layer in one step: what each assignment becomes, alike on every rank.

One all-gather of the ranks' ledger entries gives the group's counts. Only when an expert overflows
its group-wide capacity, a second one gives ids and scores, and every rank works out the same
verdict for all tokens. Under per-source-rank capacity each rank decides on its own before the
first, and the second never happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from contract.runtime_config import CapacityDomain, OverflowMode, OverflowPolicy
from engine.moe.context import CapacityOutcome, CapacityPlan
from engine.moe.ledger import TALLIES, Entry, Ledger, alone, read
from engine.moe.outcome import count_outcome, domain_slots
from engine.moe.overflow import POLICIES, Contest, Verdict
from engine.moe.router import Router
from engine.moe.routing import Routing
from engine.moe.spec import MoESpec
from engine.parallel.all_to_all import AllToAll
from engine.parallel.lookup import SlotLookup


@dataclass(frozen=True, slots=True)
class Admission:
    """What this rank does with its tokens, and what the group did.

    Attributes:
        slots: int64 [T_loc, k], physical slot of the group that computes it, -1 where dropped.
        gates: FP32 [T_loc, k], 0 where dropped.
        rows: rows from rank to rank, [M][M].
        kept_mass, total_mass: FP32 scalars, gate weights of this rank kept, and before dropping.
        outcome: group-wide counts.
        compute_nanoseconds: of every rank, last step.
    """

    slots: Tensor
    gates: Tensor
    rows: list[list[int]]
    kept_mass: Tensor
    total_mass: Tensor
    outcome: CapacityOutcome
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
        verdict = self._decide_alone(routing, bias, plan, counts)
        slots = self._slots(routing.expert_ids, verdict, plan, _row_index(routing.expert_ids))
        tokens = len(routing.expert_ids)
        entry = Entry(
            counts=counts,
            rows_to=self._rows_to(slots),
            executed_on=self._executed(slots),
            tallies=_tallies(verdict, counts),
            tokens=tokens,
            compute_nanoseconds=self.exchange.compute_nanoseconds(),
        )
        if self.exchange.group.size == 1:
            ledger = alone(entry)
        else:
            ledger = read(self.exchange.gather_counts(entry.packed()), self.spec.num_experts)
        if plan.domain is CapacityDomain.GLOBAL:
            limit = self._exceeded(plan, ledger.counts.sum(0), ledger.tokens)
            if limit is not None:
                verdict, slots, ledger = self._decide_together(routing, bias, plan, ledger, limit)
        return self._admission(routing, verdict, slots, plan, ledger)

    def _decide_alone(
        self, routing: Routing, bias: Tensor | None, plan: CapacityPlan, counts: Tensor
    ) -> Verdict | None:
        """Per-source-rank capacity: this rank's own verdict, None when nothing overflows."""
        tokens = len(routing.expert_ids)
        if plan.domain is CapacityDomain.GLOBAL or not tokens:
            return None
        limit = self._exceeded(plan, counts, [tokens])
        if limit is None:
            return None
        return self._judge(self._ballot(routing, bias, plan), counts, plan, limit)

    def _exceeded(self, plan: CapacityPlan, counts: Tensor, tokens: Sequence[int]) -> int | None:
        """The capacity in slots when it is enforced and some expert of `counts` [E] exceeds it."""
        if plan.capacity_factor is None or plan.mode is not OverflowMode.ENFORCED:
            return None
        (limit,) = domain_slots(plan.capacity_factor, plan, self.spec, tokens)
        return limit if int(counts.max()) > limit else None

    def _decide_together(
        self, routing: Routing, bias: Tensor | None, plan: CapacityPlan, ledger: Ledger, limit: int
    ) -> tuple[Verdict, Tensor, Ledger]:
        """Group-wide capacity: the same verdict on every rank, then this rank's part of it."""
        tokens = list(ledger.tokens)
        ballots = self.exchange.group.all_gather_rows(self._ballot(routing, bias, plan), tokens)
        counts = ledger.counts.sum(0)
        verdict = self._judge(ballots, counts, plan, limit)
        row_index = torch.cat([_row_index(ids) for ids in torch.split(verdict.expert_ids, tokens)])
        slots = self._slots(verdict.expert_ids, verdict, plan, row_index)
        tallies, executed = torch.zeros_like(ledger.tallies), torch.zeros_like(ledger.executed)
        tallies[0] = _tallies(verdict, counts)
        executed[0] = self._executed(slots)
        agreed = replace(
            ledger,
            rows=torch.stack([self._rows_to(part) for part in torch.split(slots, tokens)]),
            tallies=tallies,
            executed=executed,
        )
        start = sum(tokens[: self.exchange.group.rank])
        mine = slice(start, start + tokens[self.exchange.group.rank])
        own = Verdict(verdict.expert_ids[mine], verdict.kept[mine], verdict.rerouted[mine])
        return own, slots[mine], agreed

    def _ballot(self, routing: Routing, bias: Tensor | None, plan: CapacityPlan) -> Tensor:
        """FP32 [T_loc, 2k + 2c]: ids, scores, candidates and their scores; ids are exact in it."""
        wanted = POLICIES[plan.policy].candidates
        top_k = self.spec.top_k
        parts = [routing.expert_ids.float(), routing.chosen]
        if wanted:
            count = min(top_k + wanted, self.spec.reachable_experts)
            candidates = self.router.choose(routing.scores, bias, count)[:, top_k:]
            parts += [candidates.float(), routing.scores.gather(-1, candidates)]
        return torch.cat(parts, dim=1)

    def _judge(self, ballots: Tensor, counts: Tensor, plan: CapacityPlan, limit: int) -> Verdict:
        top_k = self.spec.top_k
        spare = ballots.shape[1] // 2 - top_k
        ids, chosen, candidates, scores = torch.split(ballots, [top_k, top_k, spare, spare], dim=1)
        contest = Contest(
            expert_ids=ids.long(), chosen=chosen, candidates=candidates.long(),
            candidate_scores=scores, counts=counts, num_replicas=self.lookup.num_replicas,
            slots=limit,
        )  # fmt: skip
        return POLICIES[plan.policy].decide(contest)

    def _slots(
        self, expert_ids: Tensor, verdict: Verdict | None, plan: CapacityPlan, row_index: Tensor
    ) -> Tensor:
        if verdict is None:
            if plan.policy is OverflowPolicy.SPILL:
                row_index = torch.zeros_like(row_index)
            return self.lookup.slots(expert_ids, row_index)
        replica = row_index if verdict.replica is None else verdict.replica
        slots = self.lookup.slots(verdict.expert_ids, replica)
        return slots.masked_fill(~verdict.kept, -1)

    def _rows_to(self, slots: Tensor) -> Tensor:
        """int64 [M]: tokens that have work on each rank; not counted on a rank of its own."""
        size = self.exchange.group.size
        if size == 1:
            return slots.new_zeros(1)
        ranks = self.lookup.ranks_of(slots) + 1
        return slots.new_zeros(len(slots), size + 1).scatter_(1, ranks, 1)[:, 1:].sum(0)

    def _executed(self, slots: Tensor) -> Tensor:
        """int64 [M]: assignments by the rank that computes them."""
        if self.exchange.group.size == 1:
            return (slots >= 0).sum().unsqueeze(0)
        ranks = self.lookup.ranks_of(slots).flatten() + 1
        return torch.bincount(ranks, minlength=self.exchange.group.size + 1)[1:]

    def _admission(
        self, routing: Routing, verdict: Verdict | None, slots: Tensor, plan: CapacityPlan,
        ledger: Ledger,
    ) -> Admission:  # fmt: skip
        total = routing.gates.detach().sum()
        gates, kept = routing.gates, total
        if verdict is not None:
            gates, kept = self._settled_gates(routing, verdict)
        return Admission(
            slots=slots,
            gates=gates,
            rows=ledger.rows.tolist(),
            kept_mass=kept,
            total_mass=total,
            outcome=count_outcome(
                plan, self.spec, counts=ledger.counts, tokens=ledger.tokens,
                tallies=ledger.tallies.sum(0), card_counts=ledger.executed.sum(0),
            ),
            compute_nanoseconds=ledger.compute_nanoseconds,
        )  # fmt: skip

    def _settled_gates(self, routing: Routing, verdict: Verdict) -> tuple[Tensor, Tensor]:
        """Gates after the verdict, and the gate mass kept.

        A rerouted expert enters with its own score, and the gates are renormalised over the token's
        final experts as the router does. A dropped one stays in that sum, so its share is lost and
        not handed on. The mass kept is measured by the router's own normalisation, so a weaker
        replacement counts as less.
        """
        chosen = routing.scores.gather(-1, verdict.expert_ids)
        kept = verdict.kept.to(chosen.dtype)
        per_score = routing.gates.sum(-1) / routing.chosen.sum(-1).clamp_min(1e-20)
        mass = ((chosen * kept).sum(-1) * per_score).sum()
        return self.router.gates(chosen) * kept, mass.detach()


def _row_index(expert_ids: Tensor) -> Tensor:
    return torch.arange(len(expert_ids), device=expert_ids.device).unsqueeze(-1)


def _tallies(verdict: Verdict | None, counts: Tensor) -> Tensor:
    if verdict is None:
        return counts.new_zeros(len(TALLIES))
    spilled = verdict.kept.new_zeros(()) if verdict.replica is None else verdict.replica > 0
    lost = ~verdict.kept
    return torch.stack([verdict.rerouted.sum(), spilled.sum(), lost.sum(), lost.all(-1).sum()])
