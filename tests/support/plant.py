"""A plant for the governor: a contract engine on loopback whose frames follow its config.

Load is skewed by the live bias; overflow falls with C. Nothing is measured: numbers are made so
that the detectors and SLOs have something certain to say.
"""

from dataclasses import dataclass, field

import numpy as np

from contract import CONTRACT_VERSION
from contract.frame import ARRAYS, HISTOGRAM_BOUNDS, NUM_BUCKETS, FrameHeader
from contract.frame_codec import Frame
from contract.runtime_config import CAPACITY_LADDER
from controlplane.history.history import History
from tests.support.contract_engine import EXPERTS, LAYERS, ContractEngine
from tests.support.frames import received

TOP_K = 2
TOKENS = 2048
"""A second, both phases together."""


@dataclass
class Plant:
    """Emits one frame a second into a history, at the clock's time.

    Attributes:
        overflow: overflow ratio at C = 1.25; at rung r it is `overflow · (1.25 / r)⁴`.
        slow: share of requests over the TPOT objective.
        idle: no traffic: every count is zero.
        skew: extra share of expert 0 while the live bias is not the last known good.
    """

    engine: ContractEngine
    history: History | None
    overflow: float = 0.005
    slow: float = 0.0
    skew: float = 0.4
    requests: int = 20
    idle: bool = False
    sequence: int = 0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def emit(self, ended: float, seconds: int = 1) -> None:
        """The frames of the last `seconds` up to `ended`, in one batch."""
        assert self.history is not None
        self.history.append([received(self.frame(ended - back)) for back in range(seconds, 0, -1)])

    def frame(self, started: float) -> Frame:
        """The next frame, of the second from `started` on."""
        header = self.header(started)
        self.sequence += 1
        return Frame(header, self.arrays(header))

    def header(self, started: float) -> FrameHeader:
        engine = self.engine
        return FrameHeader(
            contract_version=CONTRACT_VERSION, engine_id=engine.engine_id, group=engine.group,
            model="tiny", boot_id="boot", sequence=self.sequence, started_unix_seconds=started,
            interval_seconds=1.0, period_seconds=1.0, layers=LAYERS, experts=EXPERTS,
            top_k=TOP_K, ranks=2, steps=10, tokens=(TOKENS // 2, TOKENS // 2), sequences=64,
            sampled_steps=2, sampled_tokens=TOKENS // 2,
            generations=(engine.document.generation,),
            config_generation=engine.document.generation, config=engine.config,
            configured_bias=engine.config.router_bias, live_bias=engine.live_bias,
            lkg_bias=engine.last_known_good, gate_mass_kept=99.0, gate_mass_total=100.0,
        )  # fmt: skip

    def shares(self, *, drifted: bool) -> np.ndarray:
        even = np.full(EXPERTS, 1.0 / EXPERTS)
        if drifted:
            even *= 1.0 - self.skew
            even[0] += self.skew
        return even

    def arrays(self, header: FrameHeader) -> dict[str, np.ndarray]:
        drifted = self.engine.live_bias != self.engine.last_known_good
        total = TOKENS * TOP_K
        live, good = self.shares(drifted=drifted), self.shares(drifted=False)
        counts = {name: np.zeros(header.shape(spec), np.uint32) for name, spec in ARRAYS.items()}
        if self.idle:
            return counts
        for phase in range(2):
            counts["assignments"][phase] = self.rng.multinomial(total // 2, live, size=LAYERS)
        counts["whatif_live"][:] = self.rng.multinomial(total // 2, live, size=LAYERS)
        counts["whatif_lkg"][:] = self.rng.multinomial(total // 2, good, size=LAYERS)
        part = total // 2 // NUM_BUCKETS
        shape = (NUM_BUCKETS, LAYERS)
        counts["bucket_assignments"][:] = self.rng.multinomial(total // NUM_BUCKETS, live, shape)
        counts["bucket_whatif_live"][:] = self.rng.multinomial(part, live, shape)
        counts["bucket_whatif_lkg"][:] = self.rng.multinomial(part, good, shape)
        self._fill_overflow(counts, header, total)
        self._fill_latency(counts)
        return counts

    def _fill_overflow(self, counts, header: FrameHeader, total: int) -> None:
        for index, rung in enumerate(CAPACITY_LADDER):
            ratio = min(1.0, self.overflow * (1.25 / float(rung)) ** 4)
            counts["overflow_at_rung"][index] = round(total * ratio)
            if rung == header.config.capacity_factor:
                counts["overflow"][:] = round(total * ratio)
                counts["dropped"][:] = counts["overflow"]
                counts["generation_overflow"][0] = round(total * ratio) * LAYERS
        counts["generation_assignments"][0] = total * LAYERS
        counts["executed"][:] = total - counts["dropped"]
        counts["card_assignments"][:] = total // 2

    def _fill_latency(self, counts) -> None:
        slow = round(self.requests * self.slow)
        for name, threshold in (("ttft", 0.2), ("tpot", 0.05)):
            cell = HISTOGRAM_BOUNDS[name].index(threshold)
            bad = slow if name == "tpot" else 0
            counts[name][0, cell - 1] = self.requests - bad
            counts[name][0, cell + 1] = bad
        counts["request_time"][3] = self.requests
        counts["queue_time"][0, 1] = self.requests
        counts["step_time"][0, :, 5] = 5
        counts["a2a_layer"][..., 2] = 10
