"""Short real runs on a few modules' text; two processes show that they agree."""

import multiprocessing
import sysconfig
from pathlib import Path

import pytest
import torch

from engine.model.training.corpus import read_corpus
from engine.model.training.network import Network
from engine.model.training.recipe import Recipe
from engine.model.training.shape import Shape
from engine.model.training.stream import Streams
from engine.model.training.trainer import StepReport, balance, train

SMALL = Shape(
    hidden_size=32, intermediate_size=48, moe_intermediate_size=8, num_hidden_layers=2,
    kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, n_routed_experts=16,
    num_experts_per_tok=4,
)  # fmt: skip


@pytest.fixture(scope="module")
def streams() -> Streams:
    return Streams.of(read_corpus(Path(sysconfig.get_paths()["stdlib"]) / "json"))


def run(recipe: Recipe, streams: Streams) -> tuple[Network, list[StepReport]]:
    reports: list[StepReport] = []
    return train(recipe, SMALL, streams, reports.append), reports


def test_the_same_seed_gives_the_same_weights(streams: Streams) -> None:
    recipe = Recipe(steps=3, processes=1, tokens_per_step=256)
    first, _ = run(recipe, streams)
    second, _ = run(recipe, streams)
    for name, value in first.state_dict().items():
        torch.testing.assert_close(value, second.state_dict()[name], atol=0, rtol=0, msg=name)


def test_two_processes_train_together(streams: Streams) -> None:
    _, reports = run(Recipe(steps=3, processes=2, tokens_per_step=512), streams)
    assert [report.step for report in reports] == [1, 2, 3]
    assert reports[-1].progress == 1.0
    assert all(4 < report.loss < 8 for report in reports)


def test_a_run_whose_own_process_fails_ends_the_others(streams: Streams) -> None:
    def refuse(_report: StepReport) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Recipe(steps=9, processes=2, tokens_per_step=512), SMALL, streams, refuse)
    assert multiprocessing.active_children() == []


def test_the_loss_falls(streams: Streams) -> None:
    _, reports = run(Recipe(steps=25, processes=1, tokens_per_step=256, warmup_steps=2), streams)
    losses = [report.loss for report in reports]
    assert sum(losses[-5:]) < sum(losses[:5])


def test_minutes_end_a_run_before_its_steps(streams: Streams) -> None:
    recipe = Recipe(steps=10_000, minutes=1e-4, processes=1, tokens_per_step=256)
    _, reports = run(recipe, streams)
    assert len(reports) < 100
    assert reports[-1].progress == 1.0


def test_the_bias_moves_against_the_load_and_keeps_zero_mean() -> None:
    network = Network(SMALL)
    loads = torch.ones(1, 16)
    loads[0, 3], loads[0, 5] = 9.0, 0.0
    balance(network, loads, speed=0.1)
    (gate,) = network.gates()
    bias = gate.e_score_correction_bias
    assert bias[3] == bias.min()
    assert bias[5] > bias[3]
    assert abs(float(bias.mean())) < 1e-7
