import asyncio
import json
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from trimtab.replay.client import Replayer, Target
from trimtab.replay.prompts import PromptSource
from trimtab.replay.summary import summarise
from trimtab.replay.trace import TraceRequest


def _app() -> FastAPI:
    app = FastAPI()

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        body = await request.json()
        if body["max_tokens"] == 99:
            return JSONResponse({"detail": "queue is full"}, status_code=429)

        async def events():
            for _ in range(body["max_tokens"]):
                await asyncio.sleep(0.002)
                yield f"data: {json.dumps({'choices': [{'text': 'a'}]})}\n\n"
            yield "data: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return app


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(_app(), port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


async def test_every_request_is_sent_and_measured(url: str) -> None:
    replayer = Replayer(Target(url, "m"), PromptSource())
    requests = [TraceRequest(0.01 * i, 20, 3) for i in range(8)]
    await replayer.run(requests, asyncio.Event())
    assert sorted(result.index for result in replayer.results) == list(range(8))
    for result in replayer.results:
        assert (result.output_tokens, result.status, result.error) == (3, 200, None)
        assert result.ttft_s is not None
        assert result.tpot_s is not None
        assert result.duration_s >= result.ttft_s


async def test_a_refused_request_is_an_error_with_its_reason(url: str) -> None:
    replayer = Replayer(Target(url, "m"), PromptSource())
    await replayer.run([TraceRequest(0, 5, 99), TraceRequest(0, 5, 2)], asyncio.Event())
    summary = summarise(replayer.results)
    assert (summary.requests, summary.errors) == (2, 1)
    assert summary.reasons == {"429: queue is full": 1}


async def test_an_unreachable_engine_gives_errors_and_no_exception() -> None:
    replayer = Replayer(Target("http://127.0.0.1:9", "m"), PromptSource())
    await replayer.run([TraceRequest(0, 5, 2)], asyncio.Event())
    assert replayer.results[0].status == 0
    assert "ConnectError" in (replayer.results[0].error or "")


async def test_a_set_stop_event_sends_nothing_more(url: str) -> None:
    replayer = Replayer(Target(url, "m"), PromptSource())
    stop = asyncio.Event()
    stop.set()
    await replayer.run([TraceRequest(0, 5, 2), TraceRequest(60, 5, 2)], stop)
    assert replayer.results == []


async def test_a_closed_loop_gives_completed_requests_a_second(url: str) -> None:
    replayer = Replayer(Target(url, "m"), PromptSource())
    rate = await replayer.closed_loop([TraceRequest(0, 5, 2)] * 500, 2, 0.4)
    assert 2 < len(replayer.results) < 500
    assert rate > 0
