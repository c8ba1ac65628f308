"""A rank that runs a list of cases over gloo and writes what it saw; started by the tests."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from contract.runtime_config import CapacityDomain, DispatchDtype, OverflowPolicy
from engine.moe.layer import MoELayer
from engine.parallel.distributed import DistributedGroup
from tests.engine.moe.plain import make_context, make_spec, make_weights, plan


@dataclass(frozen=True)
class Case:
    """One layer on tokens split over ranks, two steps."""

    name: str
    tokens: tuple[int, ...]
    policy: OverflowPolicy = OverflowPolicy.DROP
    factor: str | None = "1"
    domain: CapacityDomain = CapacityDomain.GLOBAL
    wire: DispatchDtype = DispatchDtype.NATIVE
    placement: tuple[int, ...] | None = None
    dtype: torch.dtype = torch.float32

    @property
    def plan(self):
        return plan(self.factor, policy=self.policy, cap_min=1, domain=self.domain, wire=self.wire)

    @property
    def spec(self):
        return make_spec(experts=18, hidden=24, width=12)

    @property
    def hidden(self):
        random = torch.Generator().manual_seed(sum(self.tokens))
        return torch.randn(sum(self.tokens), 24, generator=random).to(self.dtype)

    @property
    def weights(self):
        return make_weights(self.spec, seed=11, dtype=self.dtype)


def run_ranks(cases: list[Case], folder: Path) -> dict[str, list[dict]]:
    """Start one process per rank; what every rank saw, by case."""
    size = len(cases[0].tokens)
    spawn(_rank, args=(size, cases, folder), nprocs=size, join=True)
    seen = [torch.load(folder / f"rank{rank}.pt", weights_only=False) for rank in range(size)]
    return {case.name: [rank[case.name] for rank in seen] for case in cases}


def _rank(rank: int, size: int, cases: list[Case], folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size,
        timeout=timedelta(seconds=60),
    )  # fmt: skip
    seen = {case.name: run_case(case, rank) for case in cases}
    torch.save(seen, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


def run_case(case: Case, rank: int) -> dict:
    """Two steps of the case on this rank's tokens; output and records of the second."""
    group = DistributedGroup()
    slots = tuple(range(case.spec.num_experts)) if case.placement is None else case.placement
    per_rank = len(slots) // group.size
    weights = case.weights.shard(slots[rank * per_rank : (rank + 1) * per_rank])
    layer = MoELayer(0, case.spec, weights, group, case.placement)
    start = sum(case.tokens[:rank])
    mine = case.hidden[start : start + case.tokens[rank]]
    context = make_context(len(mine), plan=case.plan)
    with torch.inference_mode():
        first = layer.forward(mine, context)
        out = layer.forward(mine, context)
    recorder = context.recorder
    outcome = {
        name: value.tolist() if isinstance(value, torch.Tensor) else value
        for name, value in asdict(recorder.outcomes[-1]).items()
    }
    return {
        "out": out.clone(), "repeatable": bool(torch.equal(first, out)), "outcome": outcome,
        "exchanges": recorder.exchanges, "mass": recorder.masses[-1],
    }  # fmt: skip
