"""The committed checkpoint: what `transformers` makes of it, and its size."""

import re

import numpy as np
import pytest
import torch
from transformers import DeepseekV3ForCausalLM

from engine.config import REFERENCE_CHECKPOINT
from engine.model.checkpoint.load import read_facts
from tests.support.models import Served

MAX_BYTES = 16 * 1000 * 1000


def test_next_token_logits_agree_with_transformers() -> None:
    model = DeepseekV3ForCausalLM.from_pretrained(
        REFERENCE_CHECKPOINT, dtype=torch.float32, local_files_only=True
    ).eval()
    tokens = list((REFERENCE_CHECKPOINT / "probe.txt").read_bytes()[:300])
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0]
    given = Served.load(REFERENCE_CHECKPOINT).logits(tokens)
    torch.testing.assert_close(given, expected, atol=1e-4, rtol=0)


def test_its_shape_is_the_one_promised() -> None:
    facts = read_facts(REFERENCE_CHECKPOINT)
    spec = facts.spec
    assert (spec.moe.num_experts, spec.moe.top_k) == (128, 8)
    assert 1 <= spec.num_moe_layers <= 4
    assert spec.layers[0].moe_index is None
    assert spec.eos_token_ids == (257,)
    assert facts.bias is not None
    assert np.abs(facts.bias).max() > 0.01
    np.testing.assert_allclose(facts.bias.mean(axis=1), 0, atol=1e-3)


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in REFERENCE_CHECKPOINT.iterdir()) <= MAX_BYTES


@pytest.mark.parametrize("domain", ["code", "prose", "table"])
def test_its_card_says_that_it_beats_zlib(domain: str) -> None:
    card = (REFERENCE_CHECKPOINT / "README.md").read_text()
    row = re.search(rf"\| {domain} \| [\d,]+ \| ([\d.]+) \| ([\d.]+) \|", card)
    assert row is not None
    assert float(row[1]) < float(row[2])
