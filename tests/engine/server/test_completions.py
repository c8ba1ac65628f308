import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.errors import RankFailedError
from engine.server.completion_bodies import CompletionRequest
from engine.server.completions import DONE
from engine.server.tokens import Role
from tests.support.echo_core import CONTEXT, EOS
from tests.support.echo_engine import EchoEngine, bearer, echo_engine


async def complete(engine: EchoEngine, **body: Any) -> httpx.Response:
    asked = {"model": "echo", "prompt": "hello", "max_tokens": 16} | body
    return await engine.client.post(
        "/v1/completions", json=asked, headers=bearer(Role.INFERENCE)
    )  # fmt: skip


def events(answer: httpx.Response) -> list[Any]:
    lines = [line for line in answer.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    data = [line.removeprefix("data: ") for line in lines]
    return [json.loads(item) if item != DONE else DONE for item in data]


async def test_a_completion_has_openais_shape(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine)
        body = answer.json()
        assert body["object"] == "text_completion"
        assert body["model"] == "echo"
        assert body["choices"] == [
            {"index": 0, "text": "hello", "logprobs": None, "finish_reason": "length"}
        ]
        assert body["usage"] == {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}


async def test_models_lists_the_one_that_is_served(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await engine.client.get("/v1/models", headers=bearer(Role.INFERENCE))
        assert [model["id"] for model in answer.json()["data"]] == ["echo"]


async def test_a_stream_sends_a_chunk_a_token_then_usage_then_done(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine, stream=True, stream_options={"include_usage": True})
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        *chunks, usage, done = events(answer)
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "hello"
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["length"]
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert usage["choices"] == []
        assert usage["usage"]["completion_tokens"] == 5
        assert done == DONE


async def test_a_prompt_may_be_token_ids(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine, prompt=[104, 105], max_tokens=1)
        assert answer.json()["choices"][0]["text"] == "h"


async def test_sampling_reaches_the_core(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        await complete(engine, temperature=0.5, top_p=0.9, seed=7, ignore_eos=True)
        request = engine.core.requests[0]
        assert (request.temperature, request.top_p, request.seed) == (0.5, 0.9, 7)
        assert request.ignore_eos
        assert request.token_ids == tuple(b"hello")


async def test_a_stop_string_ends_the_text_and_the_request(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        body = (await complete(engine, prompt="one END two", stop=["END", "x"])).json()
        assert body["choices"][0]["text"] == "one "
        assert body["choices"][0]["finish_reason"] == "stop"
        assert engine.core.aborted == [engine.core.requests[0].request_id]


async def test_an_end_token_finishes_unless_ignored(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        prompt = [104, EOS, 105]
        stopped = (await complete(engine, prompt=prompt)).json()["choices"][0]
        assert (stopped["text"], stopped["finish_reason"]) == ("h", "stop")
        ignored = (await complete(engine, prompt=prompt, ignore_eos=True)).json()["choices"][0]
        assert (ignored["text"], ignored["finish_reason"]) == ("hi", "length")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"temprature": 1}, "temprature"),
        ({"n": 2}, "n"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"seed": -1}, "seed"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop.0"),
        ({"stop": ["a", 3]}, "stop.1"),
        ({"stream_options": {"usage": True}}, "stream_options.usage"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1.5]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": {"text": "a"}}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [104, 259]}, "prompt"),
        ({"model": ""}, "model"),
    ],
    ids=str,
)
async def test_a_bad_field_is_named_with_value_and_bound(
    tmp_path: Path, body: dict[str, Any], field: str
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine, **body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)
        assert engine.core.requests == []


async def test_an_unknown_field_lists_the_known_ones(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        problem = (await complete(engine, temprature=1)).json()
        assert problem["bound"] == list(CompletionRequest.model_fields)
        assert problem["value"] == 1


async def test_another_model_is_404_with_the_one_that_is_served(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine, model="gpt-5")
        assert (answer.status_code, answer.json()["bound"]) == (404, ["echo"])


@pytest.mark.parametrize(("tokens", "wanted"), [(CONTEXT + 1, 1), (CONTEXT, 1), (10, CONTEXT - 1)])
async def test_more_than_the_context_is_400_with_the_numbers(
    tmp_path: Path, tokens: int, wanted: int
) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine, prompt="x" * tokens, max_tokens=wanted)
        problem = answer.json()
        assert (answer.status_code, problem["type"]) == (400, "prompt-too-long")
        assert str(CONTEXT) in problem["detail"]
        assert problem["value"] == tokens
        exact = await complete(engine, prompt="x" * (CONTEXT - 1), max_tokens=1)
        assert exact.status_code == 200


async def test_max_tokens_that_no_prompt_leaves_room_for_is_named_itself(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        problem = (await complete(engine, prompt="hi", max_tokens=10**9)).json()
        assert (problem["field"], problem["bound"]) == ("max_tokens", f"<= {CONTEXT - 1}")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_full_queue_is_429_with_retry_after(tmp_path: Path, *, stream: bool) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.queue_full = True
        answer = await complete(engine, stream=stream)
        assert (answer.status_code, answer.json()["type"]) == (429, "queue-full")
        assert answer.headers["retry-after"] == "2"


async def test_an_engine_that_is_not_ready_is_503(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.readiness.stopping()
        answer = await complete(engine)
        assert (answer.status_code, answer.json()["type"]) == (503, "not-ready")


async def test_a_rank_that_fails_in_a_stream_ends_it_with_an_error_event(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        engine.core.hold.clear()
        answer = asyncio.create_task(complete(engine, stream=True))
        await asyncio.sleep(0.02)
        engine.core.hold.set()
        await asyncio.sleep(0)
        engine.core.failed.set_result(RankFailedError("rank 1 died", rank=1))
        received = await answer
        assert "rank 1 died" in received.text


async def test_inference_needs_its_token_unless_opened(tmp_path: Path) -> None:
    body = {"model": "echo", "prompt": "hi"}
    async with echo_engine(tmp_path) as engine:
        assert (await engine.client.post("/v1/completions", json=body)).status_code == 401
        for role, status in ((Role.OPERATOR, 403), (Role.INFERENCE, 200), (Role.ADMIN, 200)):
            answer = await engine.client.post("/v1/completions", json=body, headers=bearer(role))
            assert answer.status_code == status
        operator = await engine.client.get("/v1/models", headers=bearer(Role.OPERATOR))
        assert operator.status_code == 403
    async with echo_engine(tmp_path, open_inference=True) as engine:
        assert (await engine.client.post("/v1/completions", json=body)).status_code == 200


async def test_a_body_over_the_bound_is_413(tmp_path: Path) -> None:
    async with echo_engine(tmp_path, max_body_bytes=2000) as engine:
        answer = await complete(engine, prompt="x" * 3000)
        assert (answer.status_code, answer.json()["type"]) == (413, "body-too-large")
        assert answer.json()["bound"] == "<= 2000 bytes"


async def test_a_text_that_no_context_holds_is_not_even_split_into_tokens(tmp_path: Path) -> None:
    async with echo_engine(tmp_path) as engine:
        answer = await complete(engine, prompt="x" * (CONTEXT * 128 + 1))
        assert (answer.status_code, answer.json()["bound"]) == (
            400, f"<= {CONTEXT * 128} characters",
        )  # fmt: skip
