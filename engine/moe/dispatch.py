"""Dispatch and combine: a token goes once to every rank that has an expert for it.

The payload row carries the hidden state, the gates and the local slots of that rank's experts, so
that the rank returns one weighted partial sum per row; the token's own rank adds the partial sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from contract.runtime_config import DispatchDtype
from engine.moe.dispatch_payload import pack, unpack
from engine.parallel.all_to_all import AllToAll
from engine.parallel.lookup import SlotLookup
from engine.telemetry.phase_timer import Mark, unmarked


@dataclass(frozen=True, slots=True)
class Received:
    """What a rank got to compute.

    Attributes:
        x: [n, d] in the model's dtype.
        slots: int64 [n, k], local physical expert or -1.
        gates: FP32 [n, k].
        tokens: int64 [Σ send], this rank's token of every row that it sent.
        send, receive: rows by peer.
    """

    x: Tensor
    slots: Tensor
    gates: Tensor
    tokens: Tensor
    send: Sequence[int]
    receive: Sequence[int]


def dispatch(
    exchange: AllToAll,
    lookup: SlotLookup,
    hidden: Tensor,
    slots: Tensor,
    gates: Tensor,
    rows: Sequence[Sequence[int]],
    dtype: DispatchDtype,
    mark: Mark = unmarked,
) -> Received:
    """Send every token to the ranks of its slots; collective.

    Args:
        exchange: the all-to-all of the group.
        lookup: where slots lie.
        hidden: [T_loc, d].
        slots: int64 [T_loc, k] over the group, -1 where dropped.
        gates: FP32 [T_loc, k].
        rows: rows from rank to rank, [M][M], known to all.
        dtype: of the hidden state on the wire.
        mark: told at the end of `permute` and of `dispatch`.
    """
    group = exchange.group
    ranks = lookup.ranks_of(slots)
    peers = torch.arange(group.size, device=slots.device).unsqueeze(-1)
    destination, tokens = (ranks.unsqueeze(0) == peers.unsqueeze(-1)).any(-1).nonzero(as_tuple=True)
    theirs = ranks[tokens] == destination.unsqueeze(-1)
    local = slots[tokens] - (destination * lookup.slots_per_rank).unsqueeze(-1)
    payload = pack(hidden[tokens], local.masked_fill(~theirs, -1), gates[tokens], dtype)
    mark("permute")
    send = rows[group.rank]
    receive = [row[group.rank] for row in rows]
    arrived = exchange.dispatch(payload, send, receive)
    x, slots_here, gates_here = unpack(
        arrived, hidden.shape[1], slots.shape[1], hidden.dtype, dtype
    )
    mark("dispatch")
    return Received(x, slots_here, gates_here, tokens, send, receive)


def combine(exchange: AllToAll, received: Received, partial: Tensor, num_tokens: int) -> Tensor:
    """Return the partial sums and add them up, [n, d] → [T_loc, d]; collective."""
    returned = exchange.combine(partial, received.receive, received.send)
    total = torch.zeros(num_tokens, partial.shape[1], dtype=torch.float32, device=partial.device)
    return total.index_add_(0, received.tokens, returned.float()).to(partial.dtype)
