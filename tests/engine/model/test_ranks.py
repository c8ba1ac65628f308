"""Experts split over ranks answer as one rank does, whoever has tokens."""

from pathlib import Path

import pytest
import torch

from engine.config import REFERENCE_CHECKPOINT
from engine.model.teacher_forced import teacher_forced_logits
from tests.engine.model.ranks import logits_over_ranks
from tests.support.models import Served

TEXTS = [
    [list(b"import os\n\n\ndef walk("), [], list(b"x")],
    [list(b"Return the"), list(b"00E9;LATIN SMALL LETTER E WITH"), []],
]


@pytest.mark.world_size(2)
def test_two_ranks_agree_with_one(tmp_path: Path) -> None:
    served = Served.load(REFERENCE_CHECKPOINT)
    over_ranks = logits_over_ranks(REFERENCE_CHECKPOINT, tmp_path, TEXTS)
    for texts, answers in zip(TEXTS, over_ranks, strict=True):
        for text, answer in zip(texts, answers, strict=True):
            expected = teacher_forced_logits(served.decoder, served.context, text)
            assert answer.shape == (len(text), served.decoder.spec.vocabulary)
            torch.testing.assert_close(answer, expected, atol=1e-4, rtol=0)
