"""The reference load: 58 MoE layers × 256 experts (DeepSeek-V3's shape), 2,541 a count and second.

Loads are multinomial with fixed shares (stationary; CV 0.6), so their entropy is known. Every other
array of a frame is filled too, with Poisson counts of a plausible size.
"""

import numpy as np
import numpy.typing as npt

from contract import CONTRACT_VERSION
from contract.frame import ARRAYS, HISTOGRAM_BOUNDS, FrameHeader
from contract.frame_codec import Counts, Frame
from contract.runtime_config import RuntimeConfig

LAYERS, EXPERTS, TOP_K, RANKS = 58, 256, 8, 8
MEAN = 2541
LOAD_COUNTS = LAYERS * EXPERTS
LOAD_CV = 0.6
BATCH_JITTER = 0.05
_BIAS = "a" * 64
_POISSON_MEAN = {
    "overflow": 8000, "rerouted": 4000, "spilled": 50, "dropped": 4000, "executed": 640_000,
    "capacity_slots": 800_000, "required_max": 300, "tokens_all_dropped": 5,
    "overflow_at_rung": 12_000, "card_assignments": 81_000, "a2a_rank_wait_us": 100_000,
    "a2a_bytes": 500_000_000, "generation_assignments": 37_000_000, "generation_overflow": 460_000,
}  # fmt: skip
_HISTOGRAM_MEAN = 6.0
"""Observations a cell, in the five cells around the middle of each histogram."""


class ReferenceLoad:
    """Frames of the reference load, reproducible from a seed."""

    def __init__(self, seed: int = 0, *, phases: tuple[int, ...] = (0, 1)) -> None:
        self._rng = np.random.default_rng(seed)
        self._phases = phases
        weights = self._rng.gamma(1 / LOAD_CV**2, size=(2, LAYERS, EXPERTS))
        self.shares: npt.NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)

    def arrays(self) -> dict[str, Counts]:
        """One second's arrays."""
        header = self.header("e0", 0, 0.0)
        found = {"assignments": self._loads()}
        for name, spec in ARRAYS.items():
            if name == "assignments" or not spec.every_second or name.startswith("whatif"):
                continue
            mean = self.means(name, header.shape(spec))
            found[name] = self._rng.poisson(mean).astype(np.uint32)
        return found

    def header(self, engine_id: str, sequence: int, started: float) -> FrameHeader:
        """The header of an engine's frame."""
        return FrameHeader(
            contract_version=CONTRACT_VERSION, engine_id=engine_id, group=engine_id,
            model="reference", simulated=True, boot_id="bench", sequence=sequence,
            started_unix_seconds=started, interval_seconds=1.0, layers=LAYERS, experts=EXPERTS,
            top_k=TOP_K, ranks=RANKS, step_first=sequence * 20, step_last=sequence * 20 + 19,
            steps=20, tokens=(40_000, 41_000), sequences=512, generations=(3,),
            config_generation=3, config=RuntimeConfig(), configured_bias=_BIAS, live_bias=_BIAS,
            lkg_bias=_BIAS,
        )  # fmt: skip

    def frame(self, engine_id: str, sequence: int, started: float) -> Frame:
        """A frame with fresh counts."""
        return Frame(self.header(engine_id, sequence, started), self.arrays())

    @staticmethod
    def means(name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Expected counts of an array other than the loads."""
        if ARRAYS[name].dims[-1] in HISTOGRAM_BOUNDS:
            mean = np.zeros(shape)
            middle = shape[-1] // 2
            mean[..., middle - 2 : middle + 3] = _HISTOGRAM_MEAN
            return mean
        return np.full(shape, float(_POISSON_MEAN[name]))

    def _loads(self) -> Counts:
        loads = np.zeros((2, LAYERS, EXPERTS), dtype=np.uint32)
        for phase in self._phases:
            jitter = self._rng.uniform(1 - BATCH_JITTER, 1 + BATCH_JITTER)
            total = int(MEAN * EXPERTS * jitter)
            loads[phase] = self._rng.multinomial(total, self.shares[phase])
        return loads


def load_entropy_bytes(load: ReferenceLoad) -> float:
    """Entropy of one phase's loads of one second, shares known, in bytes.

    A count of n draws with share p has ½·log2(2πe·n·p·(1-p)) bits (normal limit; n·p is over 100
    for nearly all experts).
    """
    spread = MEAN * EXPERTS * load.shares * (1 - load.shares)
    bits = 0.5 * np.log2(2 * np.pi * np.e * np.maximum(spread, 0.1))
    return float(bits.sum(axis=(1, 2)).mean() / 8)


def poisson_entropy_bits(mean: float) -> float:
    """Entropy of a Poisson count: exact sum for small means, the normal limit for large ones."""
    if mean <= 0:
        return 0.0
    if mean > 1000:
        return float(0.5 * np.log2(2 * np.pi * np.e * mean))
    top = int(mean + 12 * np.sqrt(mean) + 20)
    counts = np.arange(top)
    log_p = counts * np.log(mean) - mean - np.cumsum(np.log(np.maximum(counts, 1)))
    return float(-(np.exp(log_p) * log_p).sum() / np.log(2))


def other_entropy_bytes(load: ReferenceLoad) -> float:
    """Entropy of all arrays but the loads, of one frame, in bytes."""
    header = load.header("e0", 0, 0.0)
    bits = 0.0
    for name in load.arrays():
        if name == "assignments":
            continue
        means, counts = np.unique(load.means(name, header.shape(ARRAYS[name])), return_counts=True)
        bits += sum(
            int(count) * poisson_entropy_bits(float(mean))
            for mean, count in zip(means, counts, strict=True)
        )
    return bits / 8
