"""What ranks tell one another of a layer before they exchange rows: one int64 vector each.

One all-gather of it gives the group-wide counts, the split sizes of the dispatch, and what the
slowest rank of the last step was waited for.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

TALLIES = ("rerouted", "spilled", "dropped", "tokens_all_dropped")


@dataclass(frozen=True, slots=True)
class Entry:
    """One rank's vector.

    Attributes:
        counts: int64 [E], its assignments before capacity.
        rows_to: int64 [M], rows that it sends to each rank (a token once per rank).
        executed_on: int64 [M], its assignments that each rank computes.
        tallies: int64 [4], `TALLIES`, as far as decided locally.
        tokens: T_loc.
        compute_nanoseconds: time between its dispatch and its combine in the last step.
    """

    counts: Tensor
    rows_to: Tensor
    executed_on: Tensor
    tallies: Tensor
    tokens: int
    compute_nanoseconds: int

    def packed(self) -> Tensor:
        """int64 [E + 2M + 6]."""
        scalars = torch.tensor(
            [self.tokens, self.compute_nanoseconds], dtype=torch.int64, device=self.counts.device
        )
        return torch.cat([self.counts, self.rows_to, self.executed_on, self.tallies, scalars])


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everyone's vectors.

    Attributes:
        counts: int64 [M, E].
        expert_counts: int64 [E], the sum of counts over ranks.
        rows: int64 [M, M], rows from rank to rank; None in a group of one.
        executed: int64 [M, M], assignments of a rank computed on a rank; None in a group of one.
        tallies: int64 [M, 4].
        tokens: tokens of every rank.
        compute_nanoseconds: of every rank.
    """

    counts: Tensor
    expert_counts: Tensor
    rows: Tensor | None
    executed: Tensor | None
    tallies: Tensor
    tokens: tuple[int, ...]
    compute_nanoseconds: tuple[int, ...]


def alone(counts: Tensor, tallies: Tensor, tokens: int, compute_nanoseconds: int) -> Ledger:
    """The ledger of a group of one, from its counts [E] and tallies [4]: it sends no rows."""
    return Ledger(
        counts=counts.unsqueeze(0),
        expert_counts=counts,
        rows=None,
        executed=None,
        tallies=tallies.unsqueeze(0),
        tokens=(tokens,),
        compute_nanoseconds=(compute_nanoseconds,),
    )


def read(gathered: Tensor, num_experts: int) -> Ledger:
    """Take the gathered vectors [M, E + 2M + 6] apart; one transfer to the host for the scalars."""
    ranks = gathered.shape[0]
    counts, rows, executed, tallies, scalars = torch.split(
        gathered, [num_experts, ranks, ranks, len(TALLIES), 2], dim=1
    )
    tokens, compute = zip(*scalars.tolist(), strict=True)
    return Ledger(counts, counts.sum(0), rows, executed, tallies, tuple(tokens), tuple(compute))
