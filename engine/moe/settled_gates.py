"""Gates once capacity has spoken."""

from torch import Tensor

from engine.moe.overflow import Verdict
from engine.moe.router import Router
from engine.moe.routing import Routing

TINY = 1e-20


def settled_gates(
    router: Router, routing: Routing, verdict: Verdict | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gates after the verdict, the gate mass kept, and the mass before it.

    A rerouted expert enters with its own score, and the gates are renormalised over the token's
    final experts as the router does. A dropped one stays in that sum, so its share is lost and not
    handed on. The mass kept is measured by the router's own normalisation, so that a weaker
    replacement counts as less.

    Args:
        router: of the layer.
        routing: of this rank's tokens.
        verdict: on them; None keeps everything.

    Returns:
        gates FP32 [T, k], 0 where dropped; kept and total, FP32 without gradient, to be summed:
        the same tensor where nothing changed.
    """
    total = routing.gates.detach()
    if verdict is None:
        return routing.gates, total, total
    if verdict.num_rerouted == 0:
        gates = routing.gates * verdict.kept
        return gates, gates.detach(), total
    chosen = routing.scores.gather(-1, verdict.expert_ids)
    per_score = routing.gates.sum(-1) / routing.chosen.sum(-1).clamp_min(TINY)
    kept = (chosen * verdict.kept).sum(-1) * per_score
    return router.gates(chosen) * verdict.kept, kept.detach(), total
