"""What-if answers from the counts of every rank."""

from collections.abc import Sequence
from fractions import Fraction

from contract.admin import WhatIfResponse
from contract.runtime_config import RuntimeConfig
from engine.moe.prediction import predict
from engine.moe.what_if import WhatIfCounts, add_ranks


def what_if_response(
    ranks: Sequence[WhatIfCounts],
    config: RuntimeConfig,
    *,
    top_k: int,
    capacity_factor: str | None,
) -> WhatIfResponse:
    """Live against counterfactual.

    Args:
        ranks: counts of each rank over the same sampled steps.
        config: live.
        top_k: k.
        capacity_factor: C of the other side; None leaves C as it is (another bias was counted).
    """
    live = config.capacity_fraction
    return predict(
        add_ranks(ranks), top_k=top_k, cap_min=config.cap_min, live_factor=live,
        counterfactual_factor=live if capacity_factor is None else Fraction(capacity_factor),
    )  # fmt: skip
