"""Recalibrate a bias from the scores that the ranks kept, away from their steps."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import torch
from torch import Tensor

from engine.errors import RefusedError
from engine.llm_engine.exchange import Bias
from engine.moe.recalibrate import LoadOf, Recalibration, recalibrate
from engine.moe.router import Router, build_router
from engine.moe.spec import MoESpec
from engine.worker.messages import Floats

_LOWEST_PRIORITY = 19

T = TypeVar("T")


def recalibrate_from_scores(
    bias: Bias,
    ranks: Sequence[tuple[Floats, ...]],
    moe: MoESpec,
    *,
    target_cv: float,
    max_iterations: int,
    update_speed: float,
) -> Recalibration:
    """Right-sign updates on the sampled tokens of all ranks. Takes seconds: run it in a thread.

    Args:
        bias: FP32 [L, E] to start from.
        ranks: of each rank, scores by layer [T_loc, E].
        moe: shape of the MoE layers.
        target_cv: debiased expert CV to come below.
        max_iterations: per layer.
        update_speed: u.

    Raises:
        RefusedError: nothing was sampled yet.
    """
    sampled = [scores for scores in ranks if scores]
    if not sampled:
        raise RefusedError("no step was sampled yet; send traffic, then recalibrate")
    layers = [
        torch.cat([torch.from_numpy(part) for part in parts])
        for parts in zip(*sampled, strict=True)
    ]
    _yield_to_the_ranks()
    return recalibrate(
        torch.from_numpy(bias.copy()), _load_of(layers, build_router(moe), moe), moe.top_k,
        target_cv=target_cv, max_iterations=max_iterations, update_speed=update_speed,
    )  # fmt: skip


async def in_own_thread(work: Callable[[], T], *, name: str) -> T:
    """Run `work` in a thread that ends with it, so that its priority ends too."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - it belongs to the caller
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await asyncio.shield(asyncio.wrap_future(future))


def _load_of(layers: Sequence[Tensor], router: Router, moe: MoESpec) -> LoadOf:
    def load_of(layer: int, bias: Tensor) -> Tensor:
        ids = router.choose(layers[layer], bias, moe.top_k)
        return torch.bincount(ids.flatten(), minlength=moe.num_experts)

    return load_of


def _yield_to_the_ranks() -> None:
    """On Linux a thread has a priority of its own: this one gets what serving leaves."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
