"""One simulated engine: advances in ticks, and says in a frame what happened in each.

Everything random comes from one seeded generator, so equal settings and equal commands give equal
frames. Within a tick config and faults are constant; commits take effect between two ticks.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from contract.frame_codec import Frame
from engine.simulation import counting, drift, timing
from engine.simulation.conditions import Conditions, Outage, with_forced
from engine.simulation.cost.memory import card_memory
from engine.simulation.counting import Buckets, Counted, Period
from engine.simulation.framing import Said, frame_of
from engine.simulation.load import StepLoad, StepLoads
from engine.simulation.serving.batch import Batch, Limits, Running
from engine.simulation.serving.serve import StepKind, Tick, joined, serve
from engine.simulation.serving.step_clock import StepCost
from engine.simulation.serving.traffic import Arrivals
from engine.simulation.settings import SimulationSettings
from engine.simulation.state import Governed

Floats = npt.NDArray[np.float64]


class SimulatedEngine:
    """Simulated; nothing here has run on a card.

    Attributes:
        settings, governed, conditions: what it is, what governs it, what is wrong with it.
        at: simulated seconds since its start.
        boots: how often the process has started.
        last_step_tokens: T of the most frequent steps of the last tick.
    """

    def __init__(self, settings: SimulationSettings) -> None:
        self.settings = settings
        self.model = settings.model
        ranks = settings.layout.ranks
        self.governed = Governed.first(self.model, settings.runtime, ranks)
        self.conditions = Conditions()
        self.at = 0.0
        self.boots = 1
        self.sequence = 0
        self.step_number = 0
        self.last_step_tokens = float(settings.runtime.max_concurrency)
        self._generator = np.random.default_rng([settings.seed, 2])
        self._router = self.model.router()
        self._clock = self.model.shared.clock(self.model.shape, settings.where, settings.layout)
        self._batch = Batch()
        self._buckets = Buckets.fresh(self.model.layers, self.model.shape.experts)
        self._period = Period()
        self._carry = np.zeros(4)
        self._loads: StepLoads | None = None
        self._lkg_selection: Floats | None = None
        self._selection_key: tuple[object, ...] = ()
        self._selection_of: tuple[object, ...] = ()
        self._checkpoint = self.governed.live_hash
        self._past: list[tuple[float, Floats]] = []
        self._kv_tokens = self._kv_capacity()
        self._buckets.renew(self._generator, 256.0, 0.0)

    @property
    def boot_id(self) -> str:
        """New at every start of the process; the same in every run of the same seed."""
        return f"{self.settings.boot}-{self.settings.seed}-{self.boots}"

    @property
    def running(self) -> int:
        """Sequences that run."""
        return len(self._batch.running)

    def restart(self) -> None:
        """A new process: requests are lost, the committed config and the configured bias stay."""
        self.boots += 1
        self.sequence = 0
        self._batch = Batch()
        self._period = Period()

    def pass_time(self, seconds: float) -> None:
        """Time in which the process does not run: arrivals are turned away."""
        self.at += seconds

    def selection(self) -> tuple[Floats, Floats | None]:
        """Selection [L, E] under the live bias and, where it differs, the last known good."""
        loads = self._current()
        return loads.selection, self._lkg_selection

    def step(self, decode: float, prefill: float, context: float) -> tuple[float, StepCost]:
        """Seconds of a step, and its parts (`serve.Pace`)."""
        cost = self._clock.cost(decode, prefill, context)
        conditions = self.conditions
        seconds = cost.seconds(
            self._current().busiest(decode + prefill), slow=conditions.slowest(),
            link=conditions.slowest_link(),
        )  # fmt: skip
        return seconds, cost

    def tick(self, seconds: float, started_unix: float) -> Frame:
        """Advance by `seconds` and tell of them."""
        tick = self._serve(seconds)
        steps, kinds = self._whole_steps(tick)
        if kinds:
            self.last_step_tokens = max(kinds, key=lambda each: each[0])[1].tokens
        self._regulate(tick)
        counted = self._count(kinds, steps)
        timed = timing.timed(
            tick, kinds, self.governed.generation, self.conditions,
            (self.model.layers, self.settings.layout.ranks, self.model.shape.moe_layers),
        )  # fmt: skip
        self._period.seconds += seconds
        period_seconds = self._close_period(counted, seconds)
        self.at += seconds
        frame = frame_of(
            Said(
                engine=self, tick=tick, counted=counted, timed=timed, steps=steps, kinds=kinds,
                period_seconds=period_seconds,
                started_unix=started_unix + self.conditions.clock_offset,
                kv_used=self._kv_used(),
            )
        )  # fmt: skip
        self.sequence += 1
        self.step_number += steps
        return frame

    def _serve(self, seconds: float) -> Tick:
        settings, config = self.settings, self.governed.config
        arrivals = settings.workload.arrivals(
            self._generator, settings.start_at + self.at, seconds,
            rate=self.conditions.rate, prompt=self.conditions.prompt,
        )  # fmt: skip
        limits = Limits(
            concurrency=config.max_concurrency, chunk_size=config.chunk_size,
            kv_tokens=self._kv_tokens, queue=settings.queue_limit,
            generation=self.governed.generation, prompts_cached=settings.role == "decode",
        )  # fmt: skip
        return serve(self._batch, self._pooled(arrivals), limits, self, self.at, seconds)

    def _pooled(self, arrivals: Arrivals) -> Arrivals:
        """A prefill engine stops at the first token."""
        if self.settings.role == "prefill":
            return replace(arrivals, outputs=np.ones_like(arrivals.outputs))
        return arrivals

    def _whole_steps(self, tick: Tick) -> tuple[int, list[tuple[int, StepKind, StepLoad]]]:
        """Steps of the tick as whole numbers, joined to at most one kind a phase."""
        loads = self._current()
        found: list[tuple[int, StepKind, StepLoad]] = []
        for phase, mixed in enumerate((True, False)):
            kinds = [kind for kind in tick.kinds if (kind.prefill > 0) == mixed]
            exact = sum(kind.steps for kind in kinds) + self._carry[phase]
            count = int(exact)
            self._carry[phase] = exact - count
            if count == 0 or not kinds:
                continue
            kind = joined(kinds)
            found.append((count, kind, loads.of(kind.tokens, kind.sequences)))
        return sum(count for count, _, _ in found), found

    def _regulate(self, tick: Tick) -> None:
        """Let a regulator move the bias, on the load of some time ago if it is stale."""
        rule, governed = self.conditions.regulator, self.governed
        if rule is None or governed.live_bias is None or governed.lkg_bias is None:
            return
        selection, _ = self.selection()
        self._past.append((self.at, selection))
        while len(self._past) > 1 and self._past[1][0] <= self.at - rule.lag_seconds:
            self._past.pop(0)
        seen = self._past[0][1] if rule.lag_seconds > 0 else selection
        governed.move_bias(
            drift.regulated(
                governed.live_bias, governed.lkg_bias, seen, sum(tick.tokens()), rule,
                self.model.shape.top_k,
            )
        )  # fmt: skip

    def _count(self, kinds: list[tuple[int, StepKind, StepLoad]], steps: int) -> Counted:
        counted = Counted()
        selection, lkg = self.selection()
        top_k = self.model.shape.top_k
        shifted = selection * (1.0 + self._buckets.mean)
        shifted *= top_k / shifted.sum(axis=1, keepdims=True)
        tokens = self._whole_tokens(kinds)
        counted.arrays["assignments"] = counting.assignments(
            self._generator, shifted, tokens, top_k
        )
        counting.overflow(counted, kinds, self.governed, top_k)
        if lkg is not None:
            counting.what_if(
                self._generator, counted, shifted, lkg * (1.0 + self._buckets.mean),
                tokens=sum(tokens), steps=steps, top_k=top_k,
            )  # fmt: skip
        arrays = counted.arrays
        self._period.add(
            arrays["assignments"].sum(axis=0), arrays.get("whatif_live"), arrays.get("whatif_lkg")
        )
        return counted

    def _whole_tokens(self, kinds: list[tuple[int, StepKind, StepLoad]]) -> tuple[int, int]:
        exact = np.array(
            [
                sum(count * kind.prefill for count, kind, _ in kinds),
                sum(count * kind.decode for count, kind, _ in kinds),
            ],
            dtype=np.float64,
        )
        exact += self._carry[2:]
        whole = np.floor(exact)
        self._carry[2:] = exact - whole
        return int(whole[0]), int(whole[1])

    def _close_period(self, counted: Counted, seconds: float) -> float:
        """Send the bucket arrays when their period is full, and renew the buckets."""
        if self._period.seconds < self.settings.period_seconds - seconds / 2:
            return 0.0
        counted.arrays |= counting.bucket_arrays(self._generator, self._period, self._buckets)
        length = self._period.seconds
        self._period = Period()
        self._buckets.renew(self._generator, max(8.0, float(self.running)), np.exp(-length / 15.0))
        return length

    def _current(self) -> StepLoads:
        """Selection and loads, computed again when what they depend on has changed."""
        governed, conditions = self.governed, self.conditions
        key = (
            governed.live_hash, governed.lkg_hash, conditions.mix.tobytes(), conditions.forced,
        )  # fmt: skip
        known = self._loads
        seen = governed.config, governed.placement
        if known is not None and key == self._selection_key and _same(seen, self._selection_of):
            return known
        self._selection_key, self._selection_of = key, seen
        live = self._selected(governed.live_bias)
        self._lkg_selection = None
        if governed.lkg_bias is not None and governed.live_hash != governed.lkg_hash:
            self._lkg_selection = self._selected(governed.lkg_bias)
        self._loads = StepLoads(live, governed.config, governed.placement, self.model.shape.top_k)
        if governed.live_hash == self._checkpoint and conditions.is_plain_routing:
            self._loads = self.model.shared.healthy(self._loads)
        return self._loads

    def _selected(self, bias: npt.NDArray[np.float32] | None) -> Floats:
        values = np.zeros(self.model.popularity.shape[1:]) if bias is None else bias
        chosen = self._router.selection(values.astype(np.float64), self.conditions.mix)
        return with_forced(chosen, self.conditions.forced, self.model.shape.top_k)

    def selection_under(self, bias: npt.NDArray[np.float32]) -> Floats:
        """Selection [L, E] under another bias, traffic and faults as they are."""
        return self._selected(bias)

    def _kv_capacity(self) -> float:
        """Cached tokens that the EP group has room for."""
        settings = self.settings
        memory = card_memory(
            self.model.shape, settings.where, settings.layout, kv_tokens=0.0,
            group_tokens=float(settings.runtime.chunk_size),
        )  # fmt: skip
        per_token = self.model.shape.kv_bytes()
        return max(float(settings.runtime.chunk_size), memory.free / per_token) * float(
            settings.layout.ranks
        )

    def _kv_used(self) -> float:
        held = self._batch.running.column(Running.CONTEXT)
        return min(1.0, float(held.sum()) / self._kv_tokens)

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._batch.queue)

    @property
    def silent(self) -> bool:
        """Whether this tick's frame is lost on its way."""
        return self.conditions.down or self.conditions.outage is Outage.LOSE


def _same(these: tuple[object, ...], those: tuple[object, ...]) -> bool:
    """The very same objects: a commit brings new ones."""
    return len(these) == len(those) and all(a is b for a, b in zip(these, those, strict=True))
