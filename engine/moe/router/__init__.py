"""Routers, one file per kind; `build_router` picks the one that a spec names."""

from engine.moe.router.base import Router
from engine.moe.router.group_limited import GroupLimitedRouter
from engine.moe.router.sigmoid_bias import SigmoidBiasRouter
from engine.moe.router.sigmoid_top1 import SigmoidTop1Router
from engine.moe.router.softmax import SoftmaxRouter
from engine.moe.spec import MoESpec, RouterKind

__all__ = ["Router", "build_router"]


def build_router(spec: MoESpec) -> Router:
    """The router of this spec."""
    match spec.router:
        case RouterKind.SOFTMAX:
            return SoftmaxRouter(spec)
        case RouterKind.SIGMOID_BIAS:
            return SigmoidBiasRouter(spec)
        case RouterKind.GROUP_LIMITED:
            return GroupLimitedRouter(spec)
        case RouterKind.SIGMOID_TOP1:
            return SigmoidTop1Router(spec)
