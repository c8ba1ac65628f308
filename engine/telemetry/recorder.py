"""The recorder of one rank: an MoE layer leaves its counts here, on the device.

Inside a step a layer only hands over references. Between steps, while the scheduler works, a dozen
device operations add the whole step up: nothing per expert in Python, no synchronisation, one
transfer a frame.
"""

import operator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from contract.frame import NUM_BUCKETS, PHASES
from contract.runtime_config import CAPACITY_LADDER
from engine.telemetry.cell_counts import CellCounts
from engine.telemetry.counts import Array, RankCounts
from engine.telemetry.exchange_log import ExchangeLog

if TYPE_CHECKING:
    from engine.moe.context import CapacityOutcome, LayerOutcome

_SCALARS = (
    "overflow", "rerouted", "spilled", "dropped", "executed", "tokens_all_dropped",
)  # fmt: skip


class StepRecorder:
    """Counts of one rank since the last drain. Not thread-safe: the rank's step thread owns it.

    Call `begin_step` before the forward of every step, `end_step` when there is time after it,
    `drain` between steps; all ranks drain after the same step.

    Args:
        rank, ranks: of the expert-parallel group.
        layers: MoE layers; experts: logical experts; top_k: assignments of a token.
        device: where the layers' tensors live.
    """

    def __init__(
        self, rank: int, ranks: int, layers: int, experts: int, top_k: int,
        device: torch.device | str = "cpu",
    ) -> None:  # fmt: skip
        self._rank = rank
        self._layers = layers
        self._experts = experts
        self._top_k = top_k
        device = torch.device(device)
        self._routed = CellCounts(layers, NUM_BUCKETS * len(PHASES), experts, device)
        self._whatif = [CellCounts(layers, NUM_BUCKETS, experts, device) for _ in range(2)]
        self._period = torch.zeros(
            3, layers, NUM_BUCKETS, experts, dtype=torch.int64, device=device
        )
        self._rungs = len(CAPACITY_LADDER)
        self._outcome = torch.zeros(
            layers, len(_SCALARS) + self._rungs + ranks, dtype=torch.int64, device=device
        )
        self._peak = torch.zeros(layers, dtype=torch.int64, device=device)
        self._required = torch.zeros((), dtype=torch.float32, device=device)
        self._gate_mass = torch.zeros(2, dtype=torch.float64, device=device)
        self._gates: tuple[list[Tensor], list[Tensor]] = ([], [])
        self._routings: list[tuple[int, Tensor]] = []
        self._tokens: tuple[Tensor, Tensor] | None = None
        self._samples: list[tuple[int, Tensor, Tensor, Tensor]] = []
        self._outcomes: list[tuple[int, LayerOutcome]] = []
        self._overflow_by_generation: dict[int, Tensor] = {}
        self._period_sampled = False
        self._exchanges = ExchangeLog(layers)
        self._generation = 0
        self._clear_host()

    def _clear_host(self) -> None:
        self._slots = [0] * self._layers
        self._assignments_by_generation: dict[int, int] = {}
        self._steps = 0
        self._step_first, self._step_last = 0, -1
        self._sampled_steps = 0
        self._sampled_tokens = 0

    def begin_step(self, step: int, generation: int, phase: int) -> None:
        """Name the step that follows: its id, live generation, and phase (0 prefill, 1 decode)."""
        self.end_step()
        if self._steps == 0:
            self._step_first = step
        self._step_last = step
        self._steps += 1
        self._generation = generation
        self._exchanges.begin_step(step, phase)

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Assignments before capacity: expert_ids int64 [T_loc, k], bucket and phase [T_loc].

        The tokens of a step are the same in every layer. Kept by reference, as in `capacity`.
        """
        self._tokens = (bucket_ids, is_decode)
        self._routings.append((layer, expert_ids))

    def sampled(
        self, layer: int, live_ids: Tensor, counterfactual_ids: Tensor, bucket_ids: Tensor
    ) -> None:
        """A sampled step: the same tokens routed live and by the LKG bias, int64 [T_loc, k]."""
        if layer == 0:
            self._sampled_steps += 1
            self._period_sampled = True
            self._sampled_tokens += live_ids.shape[0]
        self._samples.append((layer, live_ids, counterfactual_ids, bucket_ids))

    def capacity(self, layer: int, outcome: "LayerOutcome") -> None:
        """What capacity did in this step: group-wide numbers, so rank 0 alone counts them.

        Kept by reference and added with the whole step at its end: do not change the tensors.
        """
        if self._rank == 0:
            self._outcomes.append((layer, outcome))

    def exchange(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """One all-to-all of the step before (op 0 dispatch, 1 combine): what it cost this rank."""
        self._exchanges.add(layer, op, wait_seconds, transfer_seconds, bytes_sent, message_bytes)

    def gate_mass(self, kept: Tensor, total: Tensor) -> None:
        """This rank's gate weights, kept and before dropping. Kept by reference, as in `routed`."""
        self._gates[0].append(kept)
        self._gates[1].append(total)

    def end_step(self) -> None:
        """Add what the step left by reference: a few device operations, whatever the layers."""
        self._add_routings()
        self._add_gates()
        if self._outcomes:
            layers = [layer for layer, _ in self._outcomes]
            outcomes = [outcome for _, outcome in self._outcomes]
            self._outcomes.clear()
            counted = outcomes[0].together(outcomes)
            if counted.tokens:
                self._add_outcomes(layers, counted)

    def _add_routings(self) -> None:
        if self._routings and self._tokens is not None:
            buckets, is_decode = self._tokens
            self._routed.add(self._routings, buckets * len(PHASES) + is_decode)
            self._routings.clear()
        if self._samples:
            layers, live, counterfactual, (buckets, *_) = zip(*self._samples, strict=True)
            self._whatif[0].add(list(zip(layers, live, strict=True)), buckets)
            self._whatif[1].add(list(zip(layers, counterfactual, strict=True)), buckets)
            self._samples.clear()

    def _add_gates(self) -> None:
        kept, total = self._gates
        if not total:
            return
        sides = [total] if all(map(operator.is_, kept, total)) else [kept, total]
        sums = [torch.cat([gates.view(-1) for gates in side]).sum(dtype=torch.float64)
                for side in sides]  # fmt: skip
        self._gate_mass[0] += sums[0]
        self._gate_mass[1] += sums[-1]
        self._gates = ([], [])

    def _add_outcomes(self, layers: list[int], counted: "CapacityOutcome") -> None:
        scalars = [
            counted.overflow, counted.rerouted, counted.spilled, counted.dropped,
            counted.executed, counted.tokens_all_dropped,
        ]  # fmt: skip
        added = torch.cat(
            [torch.stack(scalars, dim=1), counted.overflow_at_rung, counted.card_counts], dim=1
        )
        peaks = counted.expert_counts.amax(1)
        if len(layers) == self._layers:
            self._outcome += added
            torch.maximum(self._peak, peaks, out=self._peak)
        else:
            self._outcome[layers] += added
            self._peak[layers] = torch.maximum(self._peak[layers], peaks)
        for layer in layers:
            self._slots[layer] += self._experts * (counted.slots or 0)
        # Without overflow at the first rung C = 1 would have done, whatever the peak: cap_min held.
        held = peaks * (counted.overflow_at_rung[:, 0] > 0)
        needed = held.amax() * (self._experts / (counted.tokens * self._top_k))
        torch.maximum(self._required, needed.clamp_min(1.0), out=self._required)
        self._add_generation(len(layers) * counted.tokens * self._top_k, counted.overflow.sum())

    def _add_generation(self, assignments: int, overflow: Tensor) -> None:
        counted = self._assignments_by_generation
        counted[self._generation] = counted.get(self._generation, 0) + assignments
        before = self._overflow_by_generation.get(self._generation)
        self._overflow_by_generation[self._generation] = (
            overflow if before is None else before + overflow
        )

    def drain(self, *, period: bool) -> RankCounts:
        """Take everything counted since the last drain: one transfer, then zero.

        Args:
            period: also take the `bucket_*` arrays, counted since the last drain with `period`.
        """
        self.end_step()
        exchanges = self._exchanges.drain()
        arrays, scalars, by_generation = self._transfer(period=period)
        arrays["a2a_bytes"] = exchanges.payload_bytes
        kept, total, required = scalars
        counts = RankCounts(
            rank=self._rank,
            arrays=arrays,
            period=period,
            steps=self._steps,
            step_first=self._step_first,
            step_last=self._step_last,
            step_ids=exchanges.step_ids,
            step_phases=exchanges.step_phases,
            exchange_seconds=exchanges.seconds,
            message_cells=exchanges.message_cells,
            message_bytes=exchanges.message_bytes,
            generation_assignments=self._assignments_by_generation,
            generation_overflow=by_generation,
            gate_mass_kept=kept,
            gate_mass_total=total,
            required_capacity_factor=required,
            sampled_steps=self._sampled_steps,
            sampled_tokens=self._sampled_tokens,
        )
        self._clear_host()
        return counts

    def _wanted(self, *, period: bool) -> dict[str, Tensor]:
        """Frame arrays on the device, by name; the period's counts take up the interval's."""
        routed = self._routed.counts.view(self._layers, NUM_BUCKETS, len(PHASES), self._experts)
        self._period[0] += routed.sum(2)
        if self._sampled_steps:
            for side in range(2):
                self._period[1 + side] += self._whatif[side].counts
        wanted: dict[str, Tensor] = {"assignments": routed.sum(1).transpose(0, 1)}
        if self._sampled_steps:
            wanted["whatif_live"] = self._whatif[0].counts.sum(1)
            wanted["whatif_lkg"] = self._whatif[1].counts.sum(1)
        if period:
            buckets = self._period.transpose(1, 2)
            wanted["bucket_assignments"] = buckets[0]
            if self._period_sampled:
                wanted["bucket_whatif_live"], wanted["bucket_whatif_lkg"] = buckets[1:].unbind(0)
        wanted |= self._outcomes_by_name() if self._rank == 0 else {}
        return wanted

    def _outcomes_by_name(self) -> dict[str, Tensor]:
        columns = self._outcome.transpose(0, 1)
        rungs = len(_SCALARS) + self._rungs
        return {name: columns[i] for i, name in enumerate(_SCALARS)} | {
            "overflow_at_rung": columns[len(_SCALARS) : rungs],
            "card_assignments": self._outcome[:, rungs:],
            "required_max": self._peak,
        }

    def _transfer(
        self, *, period: bool
    ) -> tuple[dict[str, Array], tuple[float, float, float], dict[int, int]]:
        wanted = self._wanted(period=period)
        floats = torch.cat([self._gate_mass, self._required.double().view(1)])
        generations = list(self._overflow_by_generation)
        packed = torch.cat(
            [
                *(values.reshape(-1) for values in wanted.values()),
                *(self._overflow_by_generation[key].view(1) for key in generations),
                floats.view(torch.int64),
            ]
        ).cpu()
        arrays: dict[str, Array] = {}
        offset = 0
        for name, values in wanted.items():
            size = values.numel()
            arrays[name] = packed[offset : offset + size].view(values.shape).numpy()
            offset += size
        overflows = packed[offset : offset + len(generations)].tolist()
        kept, total, required = packed[offset + len(generations) :].view(torch.float64).tolist()
        if self._rank == 0:
            arrays["capacity_slots"] = torch.tensor(self._slots, dtype=torch.int64).numpy()
        self._zero(period=period)
        return arrays, (kept, total, required), dict(zip(generations, overflows, strict=True))

    def _zero(self, *, period: bool) -> None:
        filled = [self._routed.counts, self._outcome, self._peak, self._required, self._gate_mass]
        if self._sampled_steps:
            filled += [side.counts for side in self._whatif]
        if period:
            filled.append(self._period)
            self._period_sampled = False
        for tensor in filled:
            tensor.zero_()
        self._overflow_by_generation.clear()
