import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.errors import RankFailedError, StateError
from engine.server.auth import TokenBook
from engine.server.run import Outside, run_engine
from engine.server.settings import EngineSettings
from engine.server.tokenizer import ByteTokenizer
from engine.server.tokens import Role
from tests.support.echo_core import EchoCore
from tests.support.echo_engine import RECORDS, bearer


@dataclass
class Running:
    core: EchoCore
    client: httpx.AsyncClient
    ended: "asyncio.Task[BaseException | None]"
    announced: str


def outside() -> Outside:
    return Outside(
        tokens=TokenBook(None, RECORDS), tokenizer=ByteTokenizer(),
        metrics=lambda: (b"moe_up 1\n", "text/plain; version=0.0.4"),
    )  # fmt: skip


@asynccontextmanager
async def running(folder: Path, *, port: int = 0, **changed: Any) -> AsyncIterator[Running]:
    core = EchoCore()
    settings = EngineSettings(port=port, state_dir=folder / "state", **changed)
    lines: asyncio.Queue[str] = asyncio.Queue()
    ended = asyncio.create_task(run_engine(core, settings, outside(), lines.put_nowait))
    said = asyncio.create_task(lines.get())
    await asyncio.wait((ended, said), return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        said.cancel()
        await ended
    line = await said
    url = next(word for word in line.split() if word.startswith("http"))
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        yield Running(core, client, ended, line)
    if not ended.done():
        os.kill(os.getpid(), signal.SIGTERM)
    await ended


async def test_one_line_says_who_serves_what_and_where(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        assert engine.announced.startswith("engine engine-0 serves echo on http://127.0.0.1:")
        assert engine.announced.endswith(" (2 ranks)")
        assert (await engine.client.get("/healthz")).json() == {"status": "alive"}
        assert (await engine.client.get("/readyz")).json() == {"status": "ready"}
        metrics = await engine.client.get("/metrics")
        assert metrics.text == "moe_up 1\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_is_a_clean_end(tmp_path: Path, number: signal.Signals) -> None:
    async with running(tmp_path) as engine:
        os.kill(os.getpid(), number)
        assert await engine.ended is None
    async with running(tmp_path) as engine:
        assert (await engine.client.get("/readyz")).status_code == 200


async def test_a_failed_rank_makes_it_unready_and_ends_it(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        engine.core.failed.set_result(RankFailedError("rank 1 died", rank=1))
        answer = await engine.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"] == "rank 1 died"
        assert str(await engine.ended) == "rank 1 died"


async def eventually(holds: Any) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the other side of a socket decides
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_before_the_first_token_aborts(
    tmp_path: Path, *, stream: bool
) -> None:
    async with running(tmp_path) as engine:
        engine.core.hold.clear()
        body = {"model": "echo", "prompt": "hello", "stream": stream}
        asked = asyncio.create_task(
            engine.client.post("/v1/completions", json=body, headers=bearer(Role.INFERENCE))
        )
        await eventually(lambda: engine.core.requests)
        asked.cancel()
        await eventually(lambda: engine.core.aborted)
        assert engine.core.aborted == [engine.core.requests[0].request_id]


async def test_a_client_that_goes_away_in_a_stream_aborts(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        body = {"model": "echo", "prompt": "hello", "stream": True}
        headers = bearer(Role.INFERENCE)
        engine.core.hold_after = 2
        async with engine.client.stream(
            "POST", "/v1/completions", json=body, headers=headers
        ) as answer:
            async for line in answer.aiter_lines():
                assert line.startswith("data: ")
                break
        await eventually(lambda: engine.core.aborted)


async def test_a_slow_stream_is_sent_as_it_comes(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        engine.core.hold_after = 1
        body = {"model": "echo", "prompt": "hi", "stream": True}
        async with engine.client.stream(
            "POST", "/v1/completions", json=body, headers=bearer(Role.INFERENCE)
        ) as answer:
            lines = answer.aiter_lines()
            assert '"text":"h"' in await anext(lines)
            engine.core.hold.set()
            rest = "".join([line async for line in lines])
        assert rest.endswith("data: [DONE]")


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [("POST", "/v1/completions", Role.INFERENCE), ("PUT", "/admin/v1/config", Role.ADMIN),
     ("PUT", f"/admin/v1/router-bias/{'a' * 64}", Role.ADMIN)],
)  # fmt: skip
async def test_a_client_that_goes_away_in_its_upload_leaves_no_word_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, path: str, role: Role
) -> None:
    async with running(tmp_path) as engine:
        host, port = engine.client.base_url.host, engine.client.base_url.port
        _, writer = await asyncio.open_connection(host, port)
        head = [f"{method} {path} HTTP/1.1", "Host: x", "Content-Length: 100", "If-Match: x",
                *(f"{name}: {value}" for name, value in bearer(role).items())]  # fmt: skip
        writer.write("\r\n".join([*head, "", '{"model": "ec']).encode())
        await writer.drain()
        await asyncio.sleep(0.1)  # the application waits for the rest of the body by now
        writer.close()
        await writer.wait_closed()
        assert (await engine.client.get("/readyz")).status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)
        await engine.ended
    assert caplog.records == []


async def test_a_taken_port_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StateError, match=f"cannot listen on 127.0.0.1:{port}: Address already"):
            async with running(tmp_path, port=port):
                pass


async def test_two_engines_do_not_share_a_state_folder(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(StateError, match="another engine uses the state folder"):
            async with running(tmp_path):
                pass


async def test_tls_files_that_are_no_pem_are_one_sentence(tmp_path: Path) -> None:
    pem = tmp_path / "x.pem"
    pem.write_text("no")
    with pytest.raises(StateError, match="TLS files cannot be used"):
        async with running(tmp_path, tls_certificate=pem, tls_key=pem):
            pass


async def test_a_body_in_chunks_is_bounded_too(tmp_path: Path) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 1024

    async with running(tmp_path, max_body_bytes=16 * 1024) as engine:
        answer = await engine.client.post(
            "/v1/completions", content=chunks(), headers=bearer(Role.INFERENCE)
        )
        assert answer.status_code == 413


async def test_metrics_beyond_loopback_need_a_viewer(tmp_path: Path) -> None:
    async with running(tmp_path, open_metrics=False) as engine:
        assert (await engine.client.get("/metrics")).status_code == 401
        viewer = await engine.client.get("/metrics", headers=bearer(Role.VIEWER))
        assert viewer.status_code == 200
        assert (await engine.client.get("/healthz")).status_code == 200
