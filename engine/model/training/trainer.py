"""Data-parallel training: one thread a process, one sum of gradients and loads a step."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import BrokenBarrierError

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from engine.errors import RankFailedError
from engine.model.training.network import Network
from engine.model.training.recipe import Recipe
from engine.model.training.shape import Shape
from engine.model.training.shared_sum import SharedSum
from engine.model.training.stream import LENGTHS, Streams


@dataclass(frozen=True, slots=True)
class StepReport:
    """One optimiser step: mean loss in nats per token, and how far the run is."""

    step: int
    progress: float
    loss: float
    tokens: int


Report = Callable[[StepReport], None]


def train(recipe: Recipe, shape: Shape, streams: Streams, report: Report) -> Network:
    """Train from scratch. This process is rank 0; the others are started and joined here.

    Raises:
        RankFailedError: another process of the run ended before its time.
    """
    context = multiprocessing.get_context("spawn")
    size = sum(parameter.numel() for parameter in Network(shape).parameters())
    size += shape.num_moe_layers * shape.n_routed_experts + 2
    job = _Job(recipe, shape, streams, SharedSum(context, recipe.processes, size))
    others = [
        context.Process(target=_follow, args=(job, rank), daemon=True)
        for rank in range(1, recipe.processes)
    ]
    for process in others:
        process.start()
    try:
        network = _run(job, 0, report)
    except BrokenBarrierError:
        ended = [rank for rank, process in enumerate(others, 1) if not process.is_alive()]
        rank = ended[0] if ended else 1
        raise RankFailedError(f"training process {rank} ended before its time", rank=rank) from None
    finally:
        for process in others:
            process.join()
    return network


@dataclass(frozen=True, slots=True)
class _Job:
    """What every process of a run is given."""

    recipe: Recipe
    shape: Shape
    streams: Streams
    exchange: SharedSum


def _follow(job: _Job, rank: int) -> None:
    """Another process of the run: ends quietly when a peer has failed and told why."""
    try:
        _run(job, rank, lambda _report: None)
    except BrokenBarrierError:
        raise SystemExit(1) from None


def _run(job: _Job, rank: int, report: Report) -> Network:
    torch.set_num_threads(1)
    try:
        return _loop(job, rank, report)
    except BaseException:
        job.exchange.abort()
        raise


def _loop(job: _Job, rank: int, report: Report) -> Network:
    recipe = job.recipe
    torch.manual_seed(recipe.seed)
    network = Network(job.shape)
    optimiser = _optimiser(network, recipe)
    lengths = np.random.default_rng(recipe.seed)
    windows = np.random.default_rng((recipe.seed, 1 + rank))
    started = time.monotonic()
    progress, step = 0.0, 0
    while progress < 1.0:
        length = int(lengths.choice(list(LENGTHS), p=list(LENGTHS.values())))
        count = max(1, recipe.tokens_per_step // recipe.processes // length)
        loss, loads = _gradients(
            network, job.streams.draw(windows, count, length), recipe.processes
        )
        elapsed = (time.monotonic() - started) / 60 if rank == 0 else 0.0
        loss, loads, elapsed = _synchronise(network, job.exchange, rank, loss, loads, elapsed)
        torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip_norm)
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(step, progress)
        optimiser.step()
        balance(network, loads, recipe.update_speed(progress))
        step += 1
        progress = step / recipe.steps
        if recipe.minutes is not None:
            progress = max(progress, elapsed / recipe.minutes)
        report(StepReport(step, min(progress, 1.0), loss, count * length * recipe.processes))
    return network


def _optimiser(network: Network, recipe: Recipe) -> torch.optim.AdamW:
    matrices = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    scales = [parameter for parameter in network.parameters() if parameter.ndim == 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": recipe.weight_decay},
            {"params": scales, "weight_decay": 0.0},
        ],
        lr=recipe.learning_rate,
        betas=recipe.betas,
        fused=True,
    )


def _gradients(network: Network, tokens: Tensor, processes: int) -> tuple[float, Tensor]:
    network.zero_grad(set_to_none=True)
    logits, loads = network(tokens[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    torch.autograd.backward(loss / processes)
    return float(loss.detach()) / processes, loads


def _synchronise(
    network: Network, exchange: SharedSum, rank: int, loss: float, loads: Tensor, elapsed: float
) -> tuple[float, Tensor, float]:
    """Sum gradients in place; give the summed loss, loads and rank 0's elapsed minutes."""
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    flat = [gradient.flatten() for gradient in gradients]
    total = exchange(rank, torch.cat([*flat, loads.flatten(), torch.tensor([loss, elapsed])]))
    pieces = torch.split(total, [*(part.numel() for part in flat), loads.numel(), 2])
    for gradient, piece in zip(gradients, pieces, strict=False):
        gradient.copy_(piece.view_as(gradient))
    loss, elapsed = pieces[-1].tolist()
    return loss, pieces[-2].view_as(loads), elapsed


@torch.no_grad()
def balance(network: Network, loads: Tensor, speed: float) -> None:
    """The aux-loss-free rule: b_e += u · sign(mean load − load_e), kept at zero mean.

    loads: float [MoE layers, E] of this step over all processes (Wang et al. 2024, algorithm 1).
    """
    for gate, load in zip(network.gates(), loads, strict=True):
        bias = gate.e_score_correction_bias
        bias.add_((load.mean() - load).sign(), alpha=speed)
        bias.sub_(bias.mean())
