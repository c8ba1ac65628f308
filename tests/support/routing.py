"""A simulated router for tests: sigmoid scores of normal logits, tilted per sequence, plus a bias.

Tokens of one sequence share a tilt, so counts are correlated as real ones are. Not a model of any
engine: just enough to know the truth.
"""

from dataclasses import dataclass

import numpy as np

from controlplane.history.window import EngineWindow
from tests.support.engine_windows import BAD, GOOD, window

BUCKETS = 8


@dataclass
class SimulatedRouter:
    """Draws windows of counts; every draw advances the seeded generator."""

    layers: int = 2
    experts: int = 128
    top_k: int = 8
    sequences: int = 48
    tokens_per_sequence: int = 32
    tilt: float = 0.3
    seed: int = 7

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)

    def scores(self, *, domain: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Scores [L, T, E] before the bias, and the bucket of each token [T]."""
        shape = (self.layers, self.sequences, self.experts)
        tilt = self.tilt * self.random.standard_normal(shape)
        if domain is not None:
            tilt = tilt + domain
        tilt = np.repeat(tilt, self.tokens_per_sequence, axis=1)
        logits = self.random.standard_normal(tilt.shape) + tilt
        bucket = self.random.integers(0, BUCKETS, self.sequences)
        return 1.0 / (1.0 + np.exp(-logits)), np.repeat(bucket, self.tokens_per_sequence)

    def counts(self, scores: np.ndarray, bias: np.ndarray, bucket: np.ndarray) -> np.ndarray:
        """Assignments [B, L, E] of the tokens under `bias` [L, E]."""
        chosen = np.argpartition(-(scores + bias[:, None, :]), self.top_k, axis=2)
        chosen = chosen[:, :, : self.top_k]
        out = np.zeros((BUCKETS, self.layers, self.experts), dtype=np.int64)
        layer = np.arange(self.layers)[:, None, None]
        np.add.at(out, (bucket[None, :, None], layer, chosen), 1)
        return out

    def window(
        self, index: int, *, live: np.ndarray, lkg: np.ndarray, domain: np.ndarray | None = None
    ) -> EngineWindow:
        """One window: all tokens are sampled; what-if arrays only when the biases differ."""
        scores, bucket = self.scores(domain=domain)
        now = self.counts(scores, live, bucket)
        same = bool(np.array_equal(live, lkg))
        arrays = {
            "assignments": np.stack([now.sum(axis=0), np.zeros_like(now[0])]),
            "bucket_assignments": now,
        }
        if not same:
            good = self.counts(scores, lkg, bucket)
            arrays |= {
                "bucket_whatif_live": now, "bucket_whatif_lkg": good,
                "whatif_live": now.sum(axis=0), "whatif_lkg": good.sum(axis=0),
            }  # fmt: skip
        return window(
            index, arrays=arrays, layers=self.layers, experts=self.experts, top_k=self.top_k,
            live=GOOD if same else BAD, lkg=GOOD,
            tokens=(self.sequences * self.tokens_per_sequence, 0),
        )  # fmt: skip

    def healthy(self, num: int, first: int = 0) -> list[EngineWindow]:
        """Windows under the last known good (zero) bias."""
        zero = np.zeros((self.layers, self.experts))
        return [self.window(first + i, live=zero, lkg=zero) for i in range(num)]


def incident_bias(layers: int, experts: int, *, hot_ratio: float = 0.16, size: float = 0.242):
    """A bias that sends about 70 % of the assignments to 16 % of the experts, [L, E]."""
    bias = np.zeros((layers, experts))
    bias[:, : round(hot_ratio * experts)] = size
    return bias
