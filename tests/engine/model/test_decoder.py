"""The decoder over the reference checkpoint: batching changes nothing, an idle rank takes part."""

from dataclasses import replace

import pytest
import torch

from engine.config import REFERENCE_CHECKPOINT
from engine.model.probe import probe_nll
from engine.model.runner import ModelRunner
from engine.model.teacher_forced import teacher_forced_logits
from engine.telemetry.null_recorder import NullRecorder
from tests.support.models import Served, pack

PROMPTS = [
    list(b"def read_lines(path):\n    with open(path) as file:\n        return"),
    list(b"The module defines"),
    list(b"0041;LATIN CAPITAL LETTER A;Lu\n0042;"),
]


class Visits(NullRecorder):
    """Counts the MoE layers that a step ran."""

    def __init__(self) -> None:
        self.layers: list[int] = []

    def routed(
        self, layer: int, expert_ids: torch.Tensor, bucket_ids: torch.Tensor,
        is_decode: torch.Tensor,
    ) -> None:  # fmt: skip
        self.layers.append(layer)


@pytest.fixture(scope="module")
def served() -> Served:
    return Served.load(REFERENCE_CHECKPOINT)


def test_output_does_not_depend_on_batch_mates_or_chunking(served: Served) -> None:
    alone = [served.generate([each], max_tokens=24, chunk_size=512)[0] for each in PROMPTS]
    assert served.generate(PROMPTS, max_tokens=24, chunk_size=512) == alone
    assert served.generate(PROMPTS, max_tokens=24, chunk_size=5) == alone


def test_a_long_and_short_sequences_decode_in_groups_as_they_do_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [PROMPTS[0] * 3, PROMPTS[1], PROMPTS[2]]
    alone = [served.generate([each], max_tokens=8, chunk_size=512)[0] for each in prompts]
    monkeypatch.setattr("engine.model.attention_plan._WORTH_A_GROUP_TOKENS", 1)
    assert served.generate(prompts, max_tokens=8, chunk_size=512) == alone


def test_an_idle_rank_runs_every_moe_layer_and_draws_nothing(served: Served) -> None:
    visits = Visits()
    context = replace(served.context, recorder=visits)
    assert ModelRunner(served.decoder, served.cache()).step(pack([]), context) == []
    assert visits.layers == list(range(served.decoder.spec.num_moe_layers))


def test_one_prompt_gives_the_logits_of_its_prefixes(served: Served) -> None:
    whole = served.logits(PROMPTS[0])
    prefix = served.logits(PROMPTS[0][:20])
    torch.testing.assert_close(whole[:20], prefix, atol=1e-4, rtol=0)


def test_bfloat16_stays_close_to_float32(served: Served) -> None:
    half = Served.load(REFERENCE_CHECKPOINT, torch.bfloat16)
    assert all(layer.weights.router.dtype is torch.float32 for layer in half.decoder.moe_layers)
    expected, given = served.logits(PROMPTS[0]), half.logits(PROMPTS[0])
    agreement = (expected.argmax(-1) == given.argmax(-1)).float().mean()
    assert agreement > 0.9


def test_the_probe_is_the_loss_of_its_text(served: Served) -> None:
    tokens = list((REFERENCE_CHECKPOINT / "probe.txt").read_bytes())
    nats, count = probe_nll(served.decoder, served.context, tokens)
    logits = teacher_forced_logits(served.decoder, served.context, tokens)
    chosen = logits[:-1].log_softmax(-1).gather(1, torch.tensor(tokens[1:])[:, None])
    assert count == len(tokens) - 1
    assert nats == pytest.approx(-float(chosen.sum()), rel=1e-5)
    assert nats / count < 2.0


def test_a_rank_without_the_probe_text_takes_part(served: Served) -> None:
    visits = Visits()
    context = replace(served.context, recorder=visits)
    assert probe_nll(served.decoder, context, ()) == (0.0, 0)
    assert len(visits.layers) == served.decoder.spec.num_moe_layers


def test_the_bias_decides_the_choice(served: Served) -> None:
    assert served.context.bias is not None
    zeroed = replace(served.context, bias=torch.zeros_like(served.context.bias))
    tokens = PROMPTS[0]
    live = teacher_forced_logits(served.decoder, served.context, tokens)
    assert not torch.allclose(
        live, teacher_forced_logits(served.decoder, zeroed, tokens), atol=1e-3
    )
