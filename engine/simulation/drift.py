"""A regulator of the router bias, right or wrong, in expectation: b += speed · E[sign] per update.

The sign of (mean load - load of e) over one update's tokens is +1 with the probability that a
normal of that difference and of the counts' noise is positive; so a tick of many updates moves the
bias by speed · updates · (2Φ - 1), without drawing any. Aux-loss-free rule: arXiv 2408.15664.
"""

import numpy as np
import numpy.typing as npt

from engine.simulation.conditions import Regulator
from engine.simulation.model import Bias
from engine.simulation.routing import normal

Floats = npt.NDArray[np.float64]


def regulated(
    bias: Bias, good: Bias, selection: Floats, tokens: float, rule: Regulator, top_k: int
) -> Bias:
    """The bias after a tick.

    Args:
        bias: FP32 [L, E], before.
        good: the last known good, for the clamp.
        selection: [L, E], what the regulator believes the load to be; rows sum to k.
        tokens: of the tick.
        rule: the regulator.
        top_k: k.
    """
    updates = tokens / rule.update_tokens
    even = top_k / selection.shape[1]
    spread = np.sqrt(np.maximum(selection * (1.0 - selection), 1e-12) / rule.update_tokens)
    sign = 2.0 * normal.cdf((even - selection) / spread) - 1.0
    moved = bias + rule.sign * rule.speed * updates * sign
    if rule.clamp > 0:
        moved = np.clip(moved, good - rule.clamp, good + rule.clamp)
    return moved.astype(np.float32)
