"""The simulated model that all engines of a group serve: popularity, router, checkpoint bias."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract.bias_hash import bias_hash
from engine.simulation.cost.shape import ModelShape
from engine.simulation.routing.popularity import DEFAULT_SIGMA, SIGMA, popularity
from engine.simulation.routing.router import BiasedRouter
from engine.simulation.shared import Shared

Floats = npt.NDArray[np.float64]
Bias = npt.NDArray[np.float32]

BIAS_LEVEL = 4.0
"""Common offset of a trained bias. Assumed: training moves all biases together over its steps,
and a common offset routes alike but costs precision when the bias is cast to BF16."""
BIAS_SPREAD = 0.03


@dataclass(frozen=True)
class SimulatedModel:
    """Seeded; equal seeds are equal models.

    Attributes:
        shape: what it weighs.
        layers: MoE layers that are routed and told of; the cost model still counts all of `shape`.
        popularity: [D, L, E], selection probabilities under the checkpoint's bias.
        checkpoint_bias: FP32 [L, E], None where the model has none.
    """

    shape: ModelShape
    layers: int
    popularity: Floats
    checkpoint_bias: Bias | None
    expert_set_hash: str
    shared: Shared = field(default_factory=Shared, compare=False, repr=False)

    @classmethod
    def make(
        cls, shape: ModelShape, *, seed: int = 0, layers: int | None = None,
        sigma: float | None = None, biased: bool | None = None, bias_level: float = BIAS_LEVEL,
    ) -> "SimulatedModel":  # fmt: skip
        """Draw a model.

        Args:
            shape: the preset.
            seed: of popularity and bias.
            layers: fewer MoE layers than the preset has, for speed.
            sigma: spread of the log popularity; None takes the fitted one of the preset.
            biased: whether its router has a selection bias; None as the preset.
            bias_level: common offset of the bias.
        """
        count = shape.moe_layers if layers is None else min(layers, shape.moe_layers)
        generator = np.random.default_rng([seed, 1])
        spread = SIGMA.get(shape.name, DEFAULT_SIGMA) if sigma is None else sigma
        chosen = popularity(generator, count, shape.experts, shape.top_k, spread)
        has_bias = shape.has_bias if biased is None else biased
        bias: Bias | None = None
        if has_bias:
            drawn = BIAS_SPREAD * generator.standard_normal((count, shape.experts))
            bias = (bias_level + drawn).astype(np.float32)
        name = f"{shape.name}:{seed}:{count}:{spread}:{bias_level if has_bias else None}"
        return cls(shape, count, chosen, bias, hashlib.sha256(name.encode()).hexdigest())

    def router(self) -> BiasedRouter:
        """A router of one engine (it remembers thresholds)."""
        bias = (
            np.zeros(self.popularity.shape[1:])
            if self.checkpoint_bias is None
            else self.checkpoint_bias.astype(np.float64)
        )
        return BiasedRouter.from_selection(self.popularity, bias, self.shape.top_k)


def hash_of(bias: Bias) -> str:
    """Content hash of a bias [L, E]."""
    layers, experts = bias.shape
    packed = np.ascontiguousarray(bias, dtype="<f4").tobytes()
    return bias_hash(packed, layers=layers, experts=experts)
