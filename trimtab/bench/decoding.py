"""An engine whose requests all decode at once, and the beat of its steps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from engine.config import EngineConfig
from engine.llm_engine.engine import LLMEngine
from engine.llm_engine.exchange import GenerationRequest
from trimtab.bench.generation import Workload

Ticks = asyncio.Queue[float | None]
"""When each token of one request came, then None."""


@asynccontextmanager
async def decoding(
    config: EngineConfig, workload: Workload
) -> AsyncIterator[tuple[LLMEngine, Ticks]]:
    """Start an engine and the workload, and wait until every request has its first token."""
    engine = LLMEngine(config)
    await engine.start()
    tasks: list[asyncio.Task[None]] = []
    try:
        ticks: Ticks = asyncio.Queue()
        started = [asyncio.Event() for _ in workload.prompts]
        for number, prompt in enumerate(workload.prompts):
            request = GenerationRequest(
                f"r{number}", prompt, workload.output_tokens, ignore_eos=True
            )
            own = ticks if number == 0 else None
            tasks.append(asyncio.create_task(_read(engine, request, started[number], own)))
        for event in started:
            await event.wait()
        while not ticks.empty():
            ticks.get_nowait()
        yield engine, ticks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await engine.stop()


async def _read(
    engine: LLMEngine, request: GenerationRequest, started: asyncio.Event, ticks: Ticks | None
) -> None:
    async for _ in engine.generate(request):
        started.set()
        if ticks is not None:
            ticks.put_nowait(perf_counter())
    if ticks is not None:
        ticks.put_nowait(None)
