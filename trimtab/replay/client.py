"""The load generator: open-loop arrivals, so that a slow server never slows the clock.

Latencies count from the moment a request was due, not from when it could be sent: a stalled server
must not hide its own queue (coordinated omission).
"""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import httpx

from contract.keep_alive import FOREIGN_KEEP_ALIVE_SECONDS
from trimtab.replay.prompts import PromptSource
from trimtab.replay.trace import TraceRequest

_DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class RequestResult:
    """What one request saw; times in seconds, `error` None when it was served whole.

    Attributes:
        due_s, sent_s: when it was due and when it left, from the start of the replay.
        ttft_s: from due to the first token.
        tpot_s: (last - first token) / (tokens - 1), None below two tokens.
        duration_s: from due to the last token.
        output_tokens: tokens that came back.
        status: HTTP status, 0 when there was none.
    """

    index: int
    due_s: float
    sent_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_s: float | None
    tpot_s: float | None
    duration_s: float
    status: int
    error: str | None

    def as_json(self) -> str:
        """One line of the result file."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and with which token."""

    url: str
    model: str
    token: str | None = None
    timeout_s: float = 120.0

    def client(self) -> httpx.AsyncClient:
        """A client without a connection limit: open-loop arrivals must not queue here.

        A completion is not sent twice, so no connection is kept until a server may close it.
        """
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        limits = httpx.Limits(
            max_connections=None, max_keepalive_connections=256,
            keepalive_expiry=FOREIGN_KEEP_ALIVE_SECONDS,
        )  # fmt: skip
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, limits=limits, timeout=self.timeout_s
        )


class Replayer:
    """Sends a trace to an engine and keeps what each request saw."""

    def __init__(
        self,
        target: Target,
        prompts: PromptSource,
        on_result: Callable[[RequestResult], None] | None = None,
    ) -> None:
        self._target = target
        self._prompts = prompts
        self._on_result = on_result
        self.results: list[RequestResult] = []
        self.started = 0.0

    async def run(self, requests: Sequence[TraceRequest], stop: asyncio.Event) -> None:
        """Send every request when it is due until `stop` is set; waits for those under way."""
        self.started = time.monotonic()
        async with self._target.client() as client, asyncio.TaskGroup() as group:
            for index, request in enumerate(requests):
                if await self._wait_until(request.arrival_s, stop):
                    return
                group.create_task(self._send(client, index, request))

    async def closed_loop(
        self, requests: Sequence[TraceRequest], concurrency: int, seconds: float
    ) -> float:
        """Keep `concurrency` requests under way; gives completed requests/s over `seconds`.

        The requests join one by one over a quarter of `seconds` first, which is not counted: all at
        once would measure a burst that no traffic has.
        """
        self.started = time.monotonic()
        upcoming = iter(enumerate(requests))
        ramp = seconds / 4

        async def worker(client: httpx.AsyncClient, turn: int) -> None:
            await asyncio.sleep(ramp * turn / concurrency)
            while self._elapsed() < ramp + seconds:
                index, request = next(upcoming, (-1, None))
                if request is None:
                    return
                await self._send(client, index, request, due=self._elapsed())

        async with self._target.client() as client:
            await asyncio.gather(*(worker(client, turn) for turn in range(concurrency)))
        ended = [r.due_s + r.duration_s for r in self.results if r.error is None]
        counted = [at for at in ended if ramp <= at]
        return len(counted) / max(1e-9, max(counted, default=ramp) - ramp)

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    async def _wait_until(self, due: float, stop: asyncio.Event) -> bool:
        delay = due - self._elapsed()
        if delay <= 0:
            return stop.is_set()
        try:
            await asyncio.wait_for(stop.wait(), delay)
        except TimeoutError:
            return False
        return True

    async def _send(
        self, client: httpx.AsyncClient, index: int, request: TraceRequest, due: float | None = None
    ) -> None:
        due = request.arrival_s if due is None else due
        sent = self._elapsed()
        body = {
            "model": self._target.model,
            "prompt": request.prompt or self._prompts.prompt(request.prompt_tokens),
            "max_tokens": request.output_tokens,
            "temperature": 1.0,
            "seed": index,
            "stream": True,
            "ignore_eos": True,
        }
        status, error, times = await _stream(client, body, self._elapsed)
        result = RequestResult(
            index=index,
            due_s=due,
            sent_s=sent,
            prompt_tokens=request.prompt_tokens,
            output_tokens=len(times),
            ttft_s=times[0] - due if times else None,
            tpot_s=(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None,
            duration_s=(times[-1] if times else self._elapsed()) - due,
            status=status,
            error=error,
        )
        self.results.append(result)
        if self._on_result is not None:
            self._on_result(result)


async def _stream(
    client: httpx.AsyncClient, body: dict[str, Any], elapsed: Callable[[], float]
) -> tuple[int, str | None, list[float]]:
    times: list[float] = []
    status = 0
    try:
        async with client.stream("POST", "/v1/completions", json=body) as response:
            status = response.status_code
            if status != httpx.codes.OK:
                await response.aread()
                return status, _reason(response), times
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line[6:] == _DONE:
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    return status, str(event["error"]), times
                times.append(elapsed())
    except httpx.HTTPError as error:
        return status, f"{type(error).__name__}: {error}", times
    return status, None if times else "the stream ended without a token", times


def _reason(response: httpx.Response) -> str:
    try:
        return str(response.json().get("detail", response.text))
    except ValueError:
        return response.text[:200]
