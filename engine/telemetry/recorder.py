"""The recorder of one rank: an MoE layer leaves its counts here, on the device.

Inside a step a layer only hands over references. Between steps, while the scheduler works, a dozen
device operations add up to eight whole steps up: nothing per expert in Python, no synchronisation,
one transfer a frame.
"""

import operator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from contract.frame import NUM_BUCKETS, PHASES
from engine.telemetry.cell_counts import CellCounts
from engine.telemetry.counts import Array, RankCounts
from engine.telemetry.exchange_log import ExchangeLog
from engine.telemetry.outcome_totals import OutcomeTotals
from engine.telemetry.step_notes import StepNotes

if TYPE_CHECKING:
    from engine.moe.context import LayerOutcome

_TOGETHER_STEPS = 8
"""Steps of one kind that are added up together: at decode an operation costs more than its work."""
_TOGETHER_ASSIGNMENTS = 1 << 16
"""Held assignments at which they are added up sooner, so that little memory is held."""


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
        device = torch.device(device)
        self._routed = CellCounts(layers, NUM_BUCKETS * len(PHASES), experts, device)
        self._whatif = [CellCounts(layers, NUM_BUCKETS, experts, device) for _ in range(2)]
        self._period = torch.zeros(
            3, layers, NUM_BUCKETS, experts, dtype=torch.int64, device=device
        )
        self._outcomes = OutcomeTotals(
            ranks=ranks, layers=layers, experts=experts, top_k=top_k, device=device
        )
        self._gate_mass = torch.zeros(2, dtype=torch.float64, device=device)
        self._notes = StepNotes()
        self._held: list[StepNotes] = []
        self._period_sampled = False
        self._exchanges = ExchangeLog(layers)
        self._clear_host()

    def _clear_host(self) -> None:
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
        self._notes.generation = generation
        self._exchanges.begin_step(step, phase)

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Assignments before capacity: expert_ids int64 [T_loc, k], bucket and phase [T_loc].

        The tokens of a step are the same in every layer. Kept by reference, as in `capacity`.
        """
        self._notes.tokens = (bucket_ids, is_decode)
        self._notes.layers.append(layer)
        self._notes.expert_ids.append(expert_ids)

    def sampled(
        self, layer: int, live_ids: Tensor, counterfactual_ids: Tensor, bucket_ids: Tensor
    ) -> None:
        """A sampled step: the same tokens routed live and by the LKG bias, int64 [T_loc, k]."""
        if layer == 0:
            self._sampled_steps += 1
            self._period_sampled = True
            self._sampled_tokens += live_ids.shape[0]
        self._notes.samples.append((layer, live_ids, counterfactual_ids, bucket_ids))

    def capacity(self, layer: int, outcome: "LayerOutcome") -> None:
        """What capacity did in this step: group-wide numbers, so rank 0 alone counts them.

        Kept by reference and added up with the whole step: do not change the tensors.
        """
        if self._rank == 0:
            self._notes.outcome_layers.append(layer)
            self._notes.outcomes.append(outcome)

    def exchange(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """One all-to-all of the step before (op 0 dispatch, 1 combine): what it cost this rank."""
        self._exchanges.add(layer, op, wait_seconds, transfer_seconds, bytes_sent, message_bytes)

    def gate_mass(self, kept: Tensor, total: Tensor) -> None:
        """This rank's gate weights, kept and before dropping. Kept by reference, as in `routed`."""
        self._notes.kept.append(kept)
        self._notes.total.append(total)

    def end_step(self) -> None:
        """Set the step aside; a few device operations add several of one kind up together."""
        if self._notes.is_empty:
            return
        notes, self._notes = self._notes, StepNotes()
        if self._held and not notes.is_like(self._held[0]):
            self._add_up()
        self._held.append(notes)
        most = len(self._held) >= _TOGETHER_STEPS
        if most or len(self._held) * notes.num_assignments >= _TOGETHER_ASSIGNMENTS:
            self._add_up()

    def _add_up(self) -> None:
        held, self._held = self._held, []
        if not held:
            return
        self._add_routings(held)
        self._add_gates(held)
        outcomes = [outcome for notes in held for outcome in notes.outcomes]
        if outcomes:
            counted = outcomes[0].together(outcomes)
            if counted.tokens:
                self._outcomes.add(held[0].outcome_layers, held[0].generation, counted)

    def _add_routings(self, held: list[StepNotes]) -> None:
        tokens = [notes.tokens for notes in held if notes.tokens is not None]
        if tokens:
            buckets, is_decode = (torch.stack(side) for side in zip(*tokens, strict=True))
            expert_ids = [ids for notes in held for ids in notes.expert_ids]
            self._routed.add(held[0].layers, expert_ids, buckets * len(PHASES) + is_decode)
        for notes in held:
            if notes.samples:
                layers, live, counterfactual, (buckets, *_) = zip(*notes.samples, strict=True)
                self._whatif[0].add(layers, live, buckets.unsqueeze(0))
                self._whatif[1].add(layers, counterfactual, buckets.unsqueeze(0))

    def _add_gates(self, held: list[StepNotes]) -> None:
        kept = [gates for notes in held for gates in notes.kept]
        total = [gates for notes in held for gates in notes.total]
        if not total:
            return
        sides = [total] if all(map(operator.is_, kept, total)) else [kept, total]
        sums = [
            torch.cat([gates.view(-1) for gates in side]).sum(dtype=torch.float64) for side in sides
        ]
        self._gate_mass[0] += sums[0]
        self._gate_mass[1] += sums[-1]

    def drain(self, *, period: bool) -> RankCounts:
        """Take everything counted since the last drain: one transfer, then zero.

        Args:
            period: also take the `bucket_*` arrays, counted since the last drain with `period`.
        """
        self.end_step()
        self._add_up()
        exchanges = self._exchanges.drain()
        by_generation = self._outcomes.assignments
        arrays, scalars, overflow = self._transfer(period=period)
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
            generation_assignments=by_generation,
            generation_overflow=overflow,
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
        wanted |= self._outcomes.by_name() if self._rank == 0 else {}
        return wanted

    def _transfer(
        self, *, period: bool
    ) -> tuple[dict[str, Array], tuple[float, float, float], dict[int, int]]:
        wanted = self._wanted(period=period)
        outcomes = self._outcomes
        floats = torch.cat([self._gate_mass, outcomes.required.double().view(1)])
        generations = list(outcomes.overflow)
        packed = torch.cat(
            [
                *(values.reshape(-1) for values in wanted.values()),
                *(outcomes.overflow[key].view(1) for key in generations),
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
            arrays["capacity_slots"] = torch.tensor(outcomes.slots, dtype=torch.int64).numpy()
        self._zero(period=period)
        return arrays, (kept, total, required), dict(zip(generations, overflows, strict=True))

    def _zero(self, *, period: bool) -> None:
        self._outcomes.zero()
        filled = [self._routed.counts, self._gate_mass]
        if self._sampled_steps:
            filled += [side.counts for side in self._whatif]
        if period:
            filled.append(self._period)
            self._period_sampled = False
        for tensor in filled:
            tensor.zero_()
