"""One rank between messages: its model, its cache, its counts and its live plan."""

import time
from dataclasses import replace
from typing import Any

import torch

from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.errors import EngineError
from engine.model.checkpoint.load import load_model, read_facts
from engine.model.kv_cache import KVCache
from engine.model.probe import probe_nll
from engine.model.runner import ModelRunner
from engine.moe.context import LayerRecorder, MoEStepContext
from engine.parallel.groups import ExpertGroup
from engine.telemetry.null_recorder import NullRecorder
from engine.telemetry.phase_timer import NO_PHASES, PhaseTimer
from engine.telemetry.recorder import StepRecorder
from engine.worker.bias_regulation import BiasRegulation
from engine.worker.free_memory import free_bytes
from engine.worker.group_counts import GroupCounts
from engine.worker.live_plan import LivePlans, RankPlan, capacity_plan
from engine.worker.messages import (
    Answer,
    Ask,
    CountSamples,
    Discard,
    Drain,
    Drained,
    Floats,
    FromRank,
    Prepare,
    Prepared,
    Probe,
    Question,
    RankFacts,
    RankSpec,
    ReadBias,
    ReadScores,
    RunStep,
    SetHook,
    StepDone,
    Stop,
    ToRank,
)
from engine.worker.placed_experts import placement_loader
from engine.worker.shadow import ShadowRouting
from engine.worker.step_hooks import StepHooks


class Rank:
    """Loads its share of the checkpoint.

    Args:
        spec: which rank of which engine.
        group: the ranks of that engine.

    Raises:
        CheckpointError: the checkpoint cannot be served.
    """

    def __init__(self, spec: RankSpec, group: ExpertGroup) -> None:
        config = self._config = spec.config
        self._rank = spec.rank
        self._device = _device(config, spec.rank)
        self._checkpoint = read_facts(config.checkpoint)
        model = self._checkpoint.spec
        dtype = _DTYPES[config.dtype]
        decoder = load_model(
            config.checkpoint, group=group, device=self._device, dtype=dtype,
            context_tokens=config.context_tokens,
        )  # fmt: skip
        cache = KVCache(
            model, blocks=config.kv_blocks, block_tokens=config.block_tokens, device=self._device,
            dtype=dtype,
        )  # fmt: skip
        self._runner = ModelRunner(decoder, cache)
        self._no_tokens = torch.zeros(0, dtype=torch.int64, device=self._device)
        layers, experts = model.num_moe_layers, model.moe.num_experts
        self._no_recorder = NullRecorder()
        self._recorder: StepRecorder | NullRecorder = self._no_recorder
        if config.recording:
            self._recorder = StepRecorder(
                spec.rank, config.ranks, layers, experts, model.moe.top_k, self._device
            )
        self._hooks = StepHooks(spec.rank, layers, experts, self._device)
        self._shadow = ShadowRouting(model.moe, layers, self._device)
        self._plans = LivePlans(
            self._first_plan(), None if self._checkpoint.bias is None else (layers, experts),
            self._device, placement_loader(config.checkpoint, group, self._device, dtype),
        )  # fmt: skip
        self._regulation = BiasRegulation(self._plans)
        self._traces = spec.rank == 0 and config.otlp_endpoint is not None
        self._timer = PhaseTimer()

    def facts(self) -> RankFacts:
        """What the engine must know of the model."""
        model, checkpoint = self._checkpoint.spec, self._checkpoint
        return RankFacts(
            name=checkpoint.name, layers=len(model.layers), moe_layers=model.num_moe_layers,
            moe=model.moe, vocabulary=model.vocabulary,
            context_tokens=model.context, expert_set_hash=checkpoint.expert_set_hash,
            eos_token_ids=model.eos_token_ids, checkpoint_bias=checkpoint.bias,
            free_bytes=free_bytes(self._device, self._config.ranks),
        )  # fmt: skip

    def handle(self, message: ToRank) -> FromRank | None:
        """Do what a message says; None where it asks for no answer."""
        match message:
            case RunStep():
                return self._run_step(message)
            case Prepare():
                return self._prepare(message)
            case Drain():
                return self._drain(message)
            case Ask():
                return self._answer(message)
            case Discard():
                self._plans.discard(message.edition)
                return None
            case Stop():
                return None

    def settle(self) -> None:
        """Count what the last step left, while the engine plans the next one."""
        self._recorder.end_step()

    def _run_step(self, message: RunStep) -> StepDone:
        started = time.perf_counter()
        self._switch(message.edition)
        plans = self._plans
        own = self._recorder if message.records else self._no_recorder
        own.begin_step(message.step, plans.plan.generation, message.phase)
        recorder, counts = self._recorders(own)
        phases = self._timer if message.sampled and self._traces else NO_PHASES
        self._hooks.before_step(plans.live_bias, message.num_tokens, message.hook_ticks)
        context = MoEStepContext(
            plan=plans.plan.capacity, bias=plans.live_bias, lkg_bias=plans.plan.lkg_bias,
            sampled=message.sampled and message.num_tokens > 0, bucket_ids=self._no_tokens,
            is_decode=self._no_tokens, recorder=recorder, step=message.step,
            reservoir=self._shadow.reservoir, phases=phases,
        )  # fmt: skip
        token_ids = self._runner.step(message.batch, context)
        if counts is not None:
            self._regulation.observe(counts.expert_counts, message.num_tokens)
            self._hooks.after_step(
                plans.live_bias, counts.expert_counts, message.num_tokens, message.hook_ticks
            )
        return StepDone(
            step=message.step, generation=plans.plan.generation, token_ids=token_ids,
            seconds=time.perf_counter() - started,
            phases=None if phases is NO_PHASES else self._timer.take(message.step),
        )  # fmt: skip

    def _switch(self, edition: int) -> None:
        if edition == self._plans.edition:
            return
        switch = self._plans.switch(edition)
        if switch.experts is not None:
            switch.experts.put_into(self._runner.decoder)
        if switch.reloaded_bias:
            self._hooks.quarantine()
            self._shadow.reservoir.clear()  # what was routed by the bias before says nothing now
        self._regulation.switched(reloaded=switch.reloaded_bias)

    def _recorders(self, own: LayerRecorder) -> tuple[LayerRecorder, GroupCounts | None]:
        if not self._hooks and not self._regulation.is_on:
            return own, None
        model = self._checkpoint.spec
        counts = GroupCounts(own, model.num_moe_layers, model.moe.num_experts, self._device)
        return counts, counts

    def _prepare(self, message: Prepare) -> Prepared:
        try:
            self._plans.prepare(message)
        except EngineError as error:
            return Prepared(message.edition, error=error.detail)
        return Prepared(message.edition)

    def _drain(self, message: Drain) -> Drained:
        counts = self._recorder.drain(period=message.period) if self._config.recording else None
        return Drained(
            frame=message.frame, counts=counts,
            bias=self._live_bias() if self._rank == 0 else None,
            free_bytes=free_bytes(self._device, self._config.ranks),
        )  # fmt: skip

    def _answer(self, message: Ask) -> Answer:
        try:
            return Answer(message.number, self._reply(message.question))
        except EngineError as error:
            return Answer(message.number, error=error.detail)

    def _reply(self, question: Question) -> Any:
        match question:
            case ReadBias():
                return self._live_bias()
            case SetHook():
                self._hooks.put(question.name, question.hook)
                return None
            case CountSamples():
                return self._shadow.count(question.bias)
            case ReadScores():
                return self._shadow.scores()
            case Probe():
                return self._probe(question.token_ids)

    def _probe(self, token_ids: tuple[int, ...]) -> tuple[float, int]:
        """Mean nats per token, and tokens; dropless, so that it shows the bias and nothing else."""
        context = MoEStepContext(
            plan=replace(self._plans.plan.capacity, capacity_factor=None),
            bias=self._plans.live_bias, lkg_bias=None, sampled=False, bucket_ids=self._no_tokens,
            is_decode=self._no_tokens, recorder=NullRecorder(),
        )  # fmt: skip
        nats, tokens = probe_nll(
            self._runner.decoder, context, token_ids if self._rank == 0 else ()
        )
        return nats / max(1, tokens), tokens

    def _live_bias(self) -> Floats | None:
        bias = self._plans.live_bias
        return None if bias is None else bias.cpu().numpy().copy()

    def _first_plan(self) -> RankPlan:
        bias = self._checkpoint.bias
        return RankPlan(
            generation=0, capacity=capacity_plan(RuntimeConfig()), updates_bias=False,
            bias=None if bias is None else torch.tensor(bias, device=self._device), lkg_bias=None,
        )  # fmt: skip


_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def _device(config: EngineConfig, rank: int) -> torch.device:
    if config.device == "cuda":
        return torch.device("cuda", rank % torch.cuda.device_count())
    return torch.device("cpu")
