"""A real engine core on a tiny checkpoint, and the few requests that tests send it."""

import asyncio
from dataclasses import replace
from pathlib import Path

from contract.frame_codec import Frame
from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.llm_engine.engine import LLMEngine
from engine.llm_engine.exchange import GenerationRequest, LivePlan
from engine.llm_engine.frame_reporter import hash_of

TINY = EngineConfig(kv_blocks=64, context_tokens=256, frame_seconds=0.25, period_seconds=1.0)


class TinyEngine(LLMEngine):
    """An engine that keeps its frames."""

    def __init__(self, checkpoint: Path, **changes) -> None:
        self.frames: list[Frame] = []
        config = replace(TINY, checkpoint=checkpoint, **changes)
        super().__init__(config, sinks=(self.frames.append,))

    def plan(self, generation: int, **knobs) -> LivePlan:
        """A plan with the checkpoint's bias and some knobs changed."""
        bias = self.model.checkpoint_bias
        assert bias is not None
        config = RuntimeConfig(router_bias=hash_of(bias), **knobs)
        return LivePlan(generation, config, bias, reload_bias=False)

    async def complete(self, name: str, prompt=range(40, 80), max_tokens=8, **more) -> list[int]:
        """The output tokens of one request."""
        request = GenerationRequest(name, tuple(prompt), max_tokens, ignore_eos=True, **more)
        return [event.token_id async for event in self.generate(request)]

    async def until(self, holds, seconds: float = 20.0) -> None:
        """Wait until `holds()`; the time is only a bound on a hang."""
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - the condition lies in another process
                await asyncio.sleep(0.02)
