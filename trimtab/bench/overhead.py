"""What recording costs a step: on against off on one engine, in short alternating blocks.

On is all of it: counts on every rank, shadow-routing samples, a frame drained, built, encoded and
sent over real HTTP for every second that is on. Off is the same engine with a null recorder. Every
request decodes all the time, so the time between two tokens of one of them is a step.
"""

import asyncio
import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection

from engine.config import EngineConfig
from trimtab.bench.decoding import Ticks, decoding
from trimtab.bench.figure import Figure
from trimtab.bench.generation import text_workload

CONCURRENCY, PROMPT_TOKENS, OUTPUT_TOKENS = 32, 64, 1600
BLOCK_SECONDS = 0.5
SETTLING_STEPS = 3
FRAME_SECONDS = 2.0
"""Half of the time is off, so a frame leaves for every second that is on."""
RUNS = 3
RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Block:
    """Steps under one setting."""

    recording: bool
    steps: int
    seconds: float


def run() -> list[Figure]:
    """The ratio of the mean step times, and how it varies over pairs of blocks."""
    blocks: list[Block] = []
    with frame_sink() as url:
        for _ in range(RUNS):
            blocks += asyncio.run(measure(url))
    return [figure(pairs_of(blocks))]


async def measure(url: str, config: EngineConfig | None = None, limit: int = 1000) -> list[Block]:
    """One engine, on and off until its requests end or `limit` blocks have passed."""
    config = config or EngineConfig(ranks=2, frame_seconds=FRAME_SECONDS, telemetry_url=url)
    blocks: list[Block] = []
    prompts = text_workload(CONCURRENCY, PROMPT_TOKENS, PROMPT_TOKENS, OUTPUT_TOKENS)
    async with decoding(config, prompts) as (engine, ticks):
        order = [True, False, False, True]
        for number in range(limit):
            recording = order[number % 4]
            engine.set_quiet(quiet=not recording)
            block = await _block(ticks, recording=recording)
            if block is None:
                break
            blocks.append(block)
    return blocks


def pairs_of(blocks: Sequence[Block]) -> list[tuple[Block, Block]]:
    """Neighbours (on, off); their order alternates, so that a drift cancels out."""
    pairs = zip(blocks[::2], blocks[1::2], strict=False)
    return [(a, b) if a.recording else (b, a) for a, b in pairs if a.recording != b.recording]


def ratio(pairs: Sequence[tuple[Block, Block]]) -> float:
    """Mean step time on over mean step time off."""
    on, off = ([pair[side] for pair in pairs] for side in (0, 1))
    return _mean_step(on) / _mean_step(off)


def figure(pairs: Sequence[tuple[Block, Block]]) -> Figure:
    """The figure, with a bootstrap interval (95 %) over pairs."""
    draw = random.Random(0)  # noqa: S311 - resampling
    resampled = sorted(ratio(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    on, off = ([pair[side] for pair in pairs] for side in (0, 1))
    medians = [
        statistics.median(block.seconds / block.steps for block in side) for side in (on, off)
    ]
    return Figure(
        name="overhead.step_time_ratio", value=ratio(pairs), unit="x", goal=1.01, compare="<=",
        n=len(pairs), low=resampled[RESAMPLES // 40], high=resampled[-RESAMPLES // 40],
        against=f"off {_mean_step(off) * 1e3:.3f} ms a step, on {_mean_step(on) * 1e3:.3f} ms "
        f"(medians of blocks {medians[1] * 1e3:.3f}, {medians[0] * 1e3:.3f}); {CONCURRENCY} "
        "sequences decode on 2 ranks, reference checkpoint, 128 experts",
    )  # fmt: skip


@contextmanager
def frame_sink() -> Iterator[str]:
    """A process that takes frames over HTTP and forgets them; its base URL."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve_sink, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


def _serve_sink(pipe: Connection) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    pipe.send(server.server_address[1])
    server.serve_forever()


async def _block(ticks: Ticks, *, recording: bool) -> Block | None:
    """Steps for `BLOCK_SECONDS`, after a few that settle; None when the requests have ended."""
    first = None
    for _ in range(SETTLING_STEPS + 1):
        first = await ticks.get()
        if first is None:
            return None
    steps = 0
    while first is not None:
        now = await ticks.get()
        if now is None:
            return None
        steps += 1
        if now - first >= BLOCK_SECONDS:
            return Block(recording, steps, now - first)
    return None


def _mean_step(blocks: Sequence[Block]) -> float:
    return sum(block.seconds for block in blocks) / sum(block.steps for block in blocks)
