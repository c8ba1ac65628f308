from pathlib import Path

import numpy as np
import pytest
import torch

from engine.model.training.corpus import Document, Domain
from engine.model.training.evaluation import debiased_cv, evaluate, zlib_bits
from engine.model.training.export import write_checkpoint
from engine.model.training.model_card import TrainingRun, write_card
from engine.model.training.network import Network
from engine.model.training.recipe import Recipe
from engine.model.training.shape import Shape

SMALL = Shape(hidden_size=32, intermediate_size=48, num_hidden_layers=2, n_routed_experts=16)
DOMAINS = tuple(
    Domain(name, (Document("t", b"train" * 9),), (Document("h", text * 40),))
    for name, text in (("code", b"x = 1\n"), ("prose", b"A word. "), ("table", b"1;2;3\n"))
)


def test_independent_tokens_have_no_skew_left_after_debiasing() -> None:
    random = np.random.default_rng(0)
    loads = np.zeros(64)
    for _ in range(4000):
        loads[random.choice(64, 4, replace=False)] += 1
    assert loads.std() / loads.mean() > 0.05
    assert debiased_cv(loads, 4) < 0.045


def test_real_skew_is_left() -> None:
    loads = np.repeat([500.0, 1500.0], 32)
    assert debiased_cv(loads, 4) == pytest.approx(0.5, abs=0.01)


def test_a_card_tells_what_was_measured(tmp_path: Path) -> None:
    torch.manual_seed(0)
    write_checkpoint(Network(SMALL), tmp_path)
    evaluation = evaluate(tmp_path, DOMAINS)
    assert set(evaluation.domains) == {"code", "prose", "table"}
    code = evaluation.domains["code"]
    assert code.bytes == 240
    assert 5 < code.bits_per_byte < 20
    assert code.zlib_bits_per_byte == zlib_bits(DOMAINS[0]) / 240
    assert len(evaluation.mixed_cv) == 1
    write_card(
        tmp_path, shape=SMALL, run=TrainingRun(Recipe(), steps=3, tokens=6144, cpu_minutes=0.5),
        evaluation=evaluation, domains=DOMAINS, command="trimtab train --steps 3",
    )  # fmt: skip
    card = (tmp_path / "README.md").read_text()
    assert f"| code | 240 | {code.bits_per_byte:.2f} |" in card
    assert "`trimtab train --steps 3`: 3 steps" in card
    assert "{" not in card
