"""/metrics of an engine: totals of its frames, read by a custom collector at scrape time.

Names, labels and bounds come from `contract.metrics`. Nothing is per expert; no `_created`.
"""

import threading
from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.registry import Collector

from contract.frame import OPS, PARTS, PHASES
from contract.frame_codec import Frame
from contract.runtime_config import CAPACITY_LADDER
from engine.telemetry import load_shape
from engine.telemetry.families import Families, by_index
from engine.telemetry.frame_gauges import scalar_gauges
from engine.telemetry.frame_totals import FrameTotals
from engine.telemetry.load_window import LoadWindow

_PER_LAYER = {
    "moe_assignments_total": "assignments",
    "moe_executed_assignments_total": "executed",
    "moe_overflow_assignments_total": "overflow",
    "moe_rerouted_assignments_total": "rerouted",
    "moe_spilled_assignments_total": "spilled",
    "moe_dropped_assignments_total": "dropped",
}
_ONLY_WHEN_USED = frozenset({"rerouted", "spilled"})
"""Outcomes of policies that this engine never ran have no series: they are one a layer."""
_HISTOGRAMS = {
    "gen_ai_server_time_to_first_token_seconds": ("ttft", "ttft"),
    "gen_ai_server_time_per_output_token_seconds": ("tpot", "tpot"),
    "gen_ai_server_request_duration_seconds": ("request_time", "request"),
    "moe_engine_queue_seconds": ("queue_time", "queue"),
    "moe_engine_inter_token_seconds": ("inter_token", "itl"),
}
"""Family → array of the totals, and the key of both its bounds and its sum."""


class EngineCollector(Collector):
    """Takes every frame of an engine (`observe`), gives its series when scraped.

    Args:
        exporter_counts: reads `FrameExporter.counts` for `moe_engine_frames_total`; None for none.
    """

    def __init__(self, exporter_counts: Callable[[], dict[str, int]] | None = None) -> None:
        self._exporter_counts = exporter_counts
        self._lock = threading.Lock()
        self._totals = FrameTotals()
        self._gauges: dict[str, float] = {}
        self._window: LoadWindow | None = None
        self._last: Frame | None = None

    def observe(self, frame: Frame) -> None:
        """Add a frame; from any thread."""
        header = frame.header
        with self._lock:
            if self._window is None:
                self._window = LoadWindow(header.layers, header.experts, header.ranks)
            self._totals.add(frame)
            self._window.add(frame)
            self._gauges.update(scalar_gauges(frame))
            self._last = frame

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that a registry does not collect when it registers."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every family; none before the first frame."""
        with self._lock:
            if self._last is None or self._window is None:
                return iter(())
            families = Families(self._last.header.model, self._last.header.engine_id)
            found = [
                *self._counters(families),
                *_load_gauges(families, self._window, self._last),
                *self._all_to_all(families),
                *self._requests(families),
                *(families.gauge(name, [((), value)]) for name, value in self._gauges.items()),
            ]
        return iter(found)

    def _counters(self, families: Families) -> Iterator[Metric]:
        arrays = self._totals.arrays
        for name, array in _PER_LAYER.items():
            if array in arrays and (array not in _ONLY_WHEN_USED or arrays[array].any()):
                yield families.counter(name, by_index(arrays[array]))
        if "overflow_at_rung" in arrays:
            rungs = zip(CAPACITY_LADDER, arrays["overflow_at_rung"].tolist(), strict=True)
            rows = [((rung,), total) for rung, total in rungs]
            yield families.counter("moe_overflow_at_rung_assignments_total", rows)
        if "tokens_all_dropped" in arrays:
            dropped = int(arrays["tokens_all_dropped"].sum())
            yield families.counter("moe_tokens_all_dropped_total", [((), dropped)])
        if "card_assignments" in arrays:
            cards = by_index(arrays["card_assignments"])
            yield families.counter("moe_card_assignments_total", cards)

    def _all_to_all(self, families: Families) -> Iterator[Metric]:
        arrays, sums = self._totals.arrays, self._totals.sums
        if "a2a_phase" not in arrays:
            return
        yield families.histogram(
            "moe_all_to_all_seconds", "a2a",
            [
                ((op, phase, part), arrays["a2a_phase"][o, w, p],
                 sums.get(f"a2a.{op}.{phase}.{part}", 0.0))
                for o, op in enumerate(OPS)
                for w, part in enumerate(PARTS)
                for p, phase in enumerate(PHASES)
            ],
        )  # fmt: skip
        yield families.histogram(
            "moe_all_to_all_message_bytes", "message",
            [((op,), arrays["a2a_message"][o], sums.get(f"message.{op}", 0.0))
             for o, op in enumerate(OPS)],
        )  # fmt: skip
        sent = [((op,), int(arrays["a2a_bytes"][o])) for o, op in enumerate(OPS)]
        yield families.counter("moe_all_to_all_bytes_total", sent)
        waits = by_index(arrays["a2a_rank_wait_us"] * 1e-6)
        yield families.counter("moe_all_to_all_rank_wait_seconds_total", waits)

    def _requests(self, families: Families) -> Iterator[Metric]:
        arrays, sums = self._totals.arrays, self._totals.sums
        for name, (array, key) in _HISTOGRAMS.items():
            if array in arrays:
                yield families.histogram(name, key, [((), arrays[array], sums.get(key, 0.0))])
        if "step_time" in arrays:
            rows = [
                ((phase,), arrays["step_time"][p], sums.get(f"step.{phase}", 0.0))
                for p, phase in enumerate(PHASES)
            ]
            yield families.histogram("moe_engine_step_seconds", "step", rows)
        for name, counted in (
            ("moe_engine_requests_total", self._totals.requests),
            ("moe_engine_tokens_total", self._totals.tokens),
        ):
            yield families.counter(name, [((key,), total) for key, total in counted.items()])
        if self._exporter_counts is not None:
            counts = self._exporter_counts()
            rows_of = [((key,), float(counts.get(key, 0))) for key in ("sent", "dropped")]
            yield families.counter("moe_engine_frames_total", rows_of)


def _load_gauges(families: Families, window: LoadWindow, last: Frame) -> Iterator[Metric]:
    header, experts, cards = last.header, window.experts, window.cards
    if not experts.any():
        return
    raw, card_raw = load_shape.cv(experts), load_shape.cv(cards)
    noise = load_shape.expert_noise(experts.sum(axis=-1), header.experts, header.top_k)
    card_noise = load_shape.card_noise(
        cards.sum(axis=-1), header.experts, header.top_k, header.ranks
    )
    gauges = {
        "moe_expert_load_cv_ratio": raw,
        "moe_expert_load_cv_debiased_ratio": load_shape.debiased_cv(raw, noise),
        "moe_card_load_cv_ratio": card_raw,
        "moe_card_load_cv_debiased_ratio": load_shape.debiased_cv(card_raw, card_noise),
        "moe_load_max_over_mean_ratio": load_shape.max_over_mean(experts),
        "moe_load_top_share_ratio": load_shape.top_share(experts),
    }
    if window.reference is not None:
        gauges["moe_load_psi_ratio"] = load_shape.psi(experts, window.reference)
    for name, values in gauges.items():
        yield families.gauge(name, by_index(values))
