"""The same prompts to the same number of greedy tokens: our engine, and `transformers`."""

import asyncio
import gc
import importlib
import inspect
import logging
import os
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.llm_engine.engine import LLMEngine
from engine.llm_engine.exchange import GenerationRequest, LivePlan
from engine.llm_engine.frame_reporter import hash_of

CHUNK_TOKENS = 2048
"""Prompt tokens of a step: throughput is asked for, and nobody waits for a first token."""
_CACHE_PAGE_TOKENS = 32


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts as token ids, and how many tokens each is continued by."""

    prompts: tuple[tuple[int, ...], ...]
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        """Output tokens of a whole run."""
        return len(self.prompts) * self.output_tokens


def text_workload(concurrency: int, shortest: int, longest: int, output_tokens: int) -> Workload:
    """Prompts of evenly spread lengths from the standard library's text, one byte a token."""
    text = inspect.getsource(ArgumentParser).encode()
    span = max(1, concurrency - 1)
    lengths = [shortest + (longest - shortest) * i // span for i in range(concurrency)]
    starts = [997 * i % (len(text) - longest) for i in range(concurrency)]
    prompts = (tuple(text[s : s + n]) for s, n in zip(starts, lengths, strict=True))
    return Workload(tuple(prompts), output_tokens)


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, and what it starts meanwhile, on one core."""
    allowed = os.sched_getaffinity(0)
    threads = torch.get_num_threads()
    os.sched_setaffinity(0, {max(allowed)})
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, allowed)


class OurEngine:
    """One rank of our engine, as it is served but for HTTP; dropless, as the other side is.

    Args:
        checkpoint: folder in Hugging Face layout.
        runner: the event loop that it lives on.
    """

    def __init__(self, checkpoint: Path, runner: asyncio.Runner) -> None:
        self._engine = LLMEngine(EngineConfig(checkpoint=checkpoint, ranks=1))
        self._runner = runner
        self._runs = 0

    def start(self) -> None:
        """Start the rank."""
        self._runner.run(self._start())

    def stop(self) -> None:
        """End it."""
        self._runner.run(self._engine.stop())

    def run(self, workload: Workload) -> tuple[float, list[list[int]]]:
        """Seconds, and the output tokens of every prompt."""
        started = time.perf_counter()
        tokens = self._runner.run(self._generate(workload))
        return time.perf_counter() - started, tokens

    async def _start(self) -> None:
        await self._engine.start()
        bias = self._engine.model.checkpoint_bias
        config = RuntimeConfig(
            capacity_factor=None, chunk_size=CHUNK_TOKENS,
            router_bias=None if bias is None else hash_of(bias),
        )  # fmt: skip
        await self._engine.commit(LivePlan(1, config, bias, reload_bias=False))
        gc.freeze()  # as the server does when it is up

    async def _generate(self, workload: Workload) -> list[list[int]]:
        self._runs += 1

        async def one(number: int, prompt: tuple[int, ...]) -> list[int]:
            request = GenerationRequest(
                f"run{self._runs}-{number}", prompt, workload.output_tokens, ignore_eos=True
            )
            return [event.token_id async for event in self._engine.generate(request)]

        return await asyncio.gather(*(one(i, p) for i, p in enumerate(workload.prompts)))


class Transformers:
    """The same checkpoint in `transformers`, one thread; `implementation` runs the experts."""

    def __init__(self, checkpoint: Path, implementation: str) -> None:
        self._library: Any = importlib.import_module("transformers")
        self._model: Any = self._library.AutoModelForCausalLM.from_pretrained(
            checkpoint, dtype=torch.float32, experts_implementation=implementation
        ).eval()

    def generate(self, workload: Workload) -> tuple[float, list[list[int]]]:
        """Seconds of `generate` on one left-padded batch, and the output tokens."""
        longest = max(len(prompt) for prompt in workload.prompts)
        ids = torch.zeros(len(workload.prompts), longest, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(workload.prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            mask[row, longest - len(prompt) :] = 1
        wanted = workload.output_tokens
        started = time.perf_counter()
        with torch.inference_mode():
            out = self._model.generate(
                ids, attention_mask=mask, max_new_tokens=wanted, min_new_tokens=wanted,
                do_sample=False, pad_token_id=0,
            )  # fmt: skip
        seconds = time.perf_counter() - started
        tokens: list[list[int]] = out[:, longest:].tolist()
        return seconds, tokens

    def continuous_batching(self, workload: Workload) -> tuple[float, list[list[int]]]:
        """Seconds of its continuous batching, and the output tokens; not for MLA on CPU."""
        logging.getLogger("ContinuousBatchingLogger").setLevel(logging.CRITICAL)
        longest = max(len(prompt) for prompt in workload.prompts) + workload.output_tokens
        pages = len(workload.prompts) * -(-longest // _CACHE_PAGE_TOKENS)
        started = time.perf_counter()
        answers = self._model.generate_batch(
            [list(prompt) for prompt in workload.prompts],
            generation_config=self._library.GenerationConfig(
                max_new_tokens=workload.output_tokens, do_sample=False, eos_token_id=-1,
                pad_token_id=0,
            ),
            continuous_batching_config=self._library.ContinuousBatchingConfig(
                page_size=_CACHE_PAGE_TOKENS, num_blocks=pages + 1, max_batch_tokens=CHUNK_TOKENS
            ),
            warmup=False,
        )  # fmt: skip
        seconds = time.perf_counter() - started
        return seconds, [list(answer.generated_tokens) for answer in answers.values()]


def agreement(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """Share of output tokens that are equal, by prompt and place.

    Greedy decoding turns a difference in the last bit of two near-equal logits into another text.
    """
    pairs = [(a, b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True)]
    return sum(a == b for a, b in pairs) / len(pairs)
