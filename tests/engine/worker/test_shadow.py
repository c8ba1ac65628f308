"""What shadow routing predicts on the reference checkpoint is what then happens.

One real rank serves text under a drifted bias, is asked what another bias or another capacity
would do, is given it, and serves other text of the same kind.
"""

import argparse
import inspect
import subprocess
import tarfile
import textwrap
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
import torch

from contract.admin import WhatIfResponse, WhatIfSide
from contract.frame import NUM_BUCKETS
from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.llm_engine.shadow_answers import what_if_response
from engine.parallel.groups import LocalGroup
from engine.worker.messages import (
    Answer,
    Ask,
    CountSamples,
    Floats,
    Prepare,
    RankSpec,
    RunStep,
    StepBatch,
)
from engine.worker.rank import Rank

TOKENS = 40
"""Tokens of a sequence; one sequence of every request bucket makes a step."""
STEPS = 26
"""One more than the rank keeps samples of."""
HEIGHT, HOT = 0.08, 20
"""The drift: what is added to the bias of so many neighbouring experts."""
TEXT = "".join(map(inspect.getsource, (argparse, subprocess, tarfile, textwrap))).encode()


class ServedText:
    """A rank and the text that it is served, piece after piece."""

    def __init__(self) -> None:
        self.rank = Rank(
            RankSpec(0, EngineConfig(ranks=1, kv_blocks=64, context_tokens=256), ""), LocalGroup()
        )
        bias = self.rank.facts().checkpoint_bias
        assert bias is not None
        self.bias = bias
        self.config = RuntimeConfig()
        self._edition = 0
        self._step = count(1)
        # Pieces from all over the text in turn, so that before and after are of one kind.
        pieces = np.frombuffer(TEXT, np.uint8).astype(np.int64)
        pieces = pieces[: len(pieces) // TOKENS * TOKENS].reshape(-1, TOKENS)
        order = np.random.default_rng(0).permutation(len(pieces))
        self._pieces: Iterator[np.ndarray] = iter(pieces[order])

    def commit(self, bias: Floats | None = None, capacity_factor: str | None = None) -> None:
        """Live from the next step on; a new bias also forgets the samples of the one before."""
        if capacity_factor is not None:
            self.config = self.config.model_copy(update={"capacity_factor": capacity_factor})
        self._edition += 1
        self.rank.handle(
            Prepare(
                self._edition, self._edition, self.config, bias, None,
                reload_bias=bias is not None,
            )
        )  # fmt: skip

    def serve(self, steps: int = STEPS) -> None:
        """So many sampled steps of new text."""
        for _ in range(steps):
            tokens = np.concatenate([next(self._pieces) for _ in range(NUM_BUCKETS)])
            message = RunStep(
                step=next(self._step), edition=self._edition, phase=0, num_tokens=len(tokens),
                sampled=True, records=True, hook_ticks={}, batch=_prompts(tokens),
            )  # fmt: skip
            self.rank.handle(message)
            self.rank.settle()

    def ask(self, bias: Floats | None = None, capacity_factor: str | None = None) -> WhatIfResponse:
        """What the samples say of another bias or another C; of the present ones without."""
        answer = self.rank.handle(Ask(1, CountSamples(bias)))
        assert isinstance(answer, Answer)
        return what_if_response(
            [answer.value], self.config, top_k=8, capacity_factor=capacity_factor
        )


def _prompts(tokens: np.ndarray) -> StepBatch:
    """Whole prompts of `TOKENS`, one a request bucket."""
    blocks = -(-TOKENS // EngineConfig().block_tokens)
    each = np.ones(NUM_BUCKETS, np.int64)
    return StepBatch(
        token_ids=tokens, num_tokens=each * TOKENS, context_lengths=each * TOKENS,
        buckets=np.arange(NUM_BUCKETS), is_decode=each == 0, wants_token=each == 0,
        blocks=np.arange(NUM_BUCKETS * blocks), num_blocks=each * blocks,
        temperature=np.zeros(NUM_BUCKETS, np.float32), top_p=np.ones(NUM_BUCKETS, np.float32),
        seed=np.zeros(NUM_BUCKETS, np.int64),
    )  # fmt: skip


@pytest.fixture
def served() -> Iterator[ServedText]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        yield ServedText()
    torch.set_num_threads(threads)


def assert_came_true(predicted: WhatIfSide, then: WhatIfSide) -> None:
    """τ of every layer within 20 %, overflow within one point of all assignments."""
    assert predicted.tau == pytest.approx(then.tau, rel=0.2)
    assert predicted.overflow_ratio_total == pytest.approx(then.overflow_ratio_total, abs=0.01)


def test_a_rollback_brings_the_skew_and_overflow_that_were_predicted_for_it(served):
    drifted = served.bias.copy()
    drifted[:, :HOT] += HEIGHT
    served.commit(drifted)
    served.serve()
    answer = served.ask(served.bias)
    served.commit(served.bias)
    served.serve()
    then = served.ask().live
    assert answer.sufficient
    assert_came_true(answer.counterfactual, then)
    # That nothing would change would have been a wrong prediction.
    assert max(answer.live.tau) > 1.5 * max(then.tau)
    assert answer.live.overflow_ratio_total > then.overflow_ratio_total + 0.04


def test_another_capacity_brings_the_overflow_that_was_predicted_for_it(served):
    served.commit(served.bias)
    served.serve()
    rungs = ("1", "1.5", "2")
    predicted = {rung: served.ask(capacity_factor=rung).counterfactual for rung in rungs}
    for rung in rungs:
        served.commit(capacity_factor=rung)
        served.serve()
        assert_came_true(predicted[rung], served.ask().live)
