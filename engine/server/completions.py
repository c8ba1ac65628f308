"""`POST /v1/completions` and `GET /v1/models`, in OpenAI's shape."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from engine.errors import EngineError, NotReadyError
from engine.server.bodies import read_body
from engine.server.clock import Clock
from engine.server.completion_bodies import (
    Choice,
    Completion,
    CompletionRequest,
    Usage,
    generation_request,
)
from engine.server.core import EngineCore, GenerationRequest, TokenEvent
from engine.server.event_stream import EventStream, unless_disconnected
from engine.server.problems import problem_of
from engine.server.readiness import Readiness
from engine.server.text_stream import TextStream
from engine.server.tokenizer import Tokenizer

DONE = "[DONE]"


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some text of a completion; the last piece carries why it ended."""

    text: str
    tokens: int
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    """One completion on its way."""

    body: CompletionRequest
    request: GenerationRequest
    created: int

    def usage(self, completion_tokens: int) -> Usage:
        prompt = len(self.request.token_ids)
        return Usage(
            prompt_tokens=prompt, completion_tokens=completion_tokens,
            total_tokens=prompt + completion_tokens,
        )  # fmt: skip

    def answer(self, text: str, finish_reason: str | None, usage: Usage | None) -> Completion:
        return Completion(
            id=self.request.request_id, created=self.created, model=self.body.model,
            choices=(Choice(text=text, finish_reason=finish_reason),), usage=usage,
        )  # fmt: skip


def completion_routes(
    core: EngineCore, tokenizer: Tokenizer, readiness: Readiness, clock: Clock
) -> APIRouter:
    """The routes that clients of the model call."""
    router = APIRouter(prefix="/v1")

    @router.get("/models")
    async def models() -> JSONResponse:
        model = {
            "id": core.model.name, "object": "model", "created": 0, "owned_by": "trimtab",
            "max_model_len": core.model.context_tokens,
        }  # fmt: skip
        return JSONResponse({"object": "list", "data": [model]})

    @router.post("/completions")
    async def completions(request: Request) -> Response:
        body = await read_body(request, CompletionRequest)
        if readiness.reason is not None:
            raise NotReadyError(f"the engine is not ready: {readiness.reason}")
        request_id = f"cmpl-{uuid.uuid4().hex}"
        wanted = generation_request(body, core.model, tokenizer, request_id)
        job = _Job(body=body, request=wanted, created=int(clock.now()))
        pieces = _pieces(core.generate(wanted), TextStream(tokenizer, body.stop or ()))
        if body.stream:
            # The first token is awaited before the status line: until then 429 is possible.
            first = await unless_disconnected(request, anext(pieces, None))
            return EventStream(_events(job, first, pieces), pieces.aclose)
        whole = await unless_disconnected(request, _whole(job, pieces))
        return Response(whole.model_dump_json(), media_type="application/json")

    return router


async def _pieces(
    events: AsyncGenerator[TokenEvent, None], text: TextStream
) -> AsyncGenerator[_Piece, None]:
    tokens = 0
    async with aclosing(events):
        async for event in events:
            tokens += 1
            ready = text.feed(event.token_id)
            if text.is_stopped:
                yield _Piece(ready, tokens, "stop")
                return
            if event.finish_reason is not None:
                yield _Piece(ready + text.finish(), tokens, event.finish_reason)
                return
            yield _Piece(ready, tokens)


async def _whole(job: _Job, pieces: AsyncGenerator[_Piece, None]) -> Completion:
    texts: list[str] = []
    last = _Piece("", 0)
    async with aclosing(pieces):
        async for last in pieces:
            texts.append(last.text)
    return job.answer("".join(texts), last.finish_reason, job.usage(last.tokens))


async def _events(
    job: _Job, first: _Piece | None, pieces: AsyncGenerator[_Piece, None]
) -> AsyncGenerator[str, None]:
    piece = first
    tokens = 0
    try:
        while piece is not None:
            tokens = piece.tokens
            yield job.answer(piece.text, piece.finish_reason, None).model_dump_json()
            piece = await anext(pieces, None)
    except EngineError as error:
        yield f'{{"error": {problem_of(error).model_dump_json(exclude_none=True)}}}'
        return
    options = job.body.stream_options
    if options is not None and options.include_usage:
        counts = job.answer("", None, job.usage(tokens)).model_copy(update={"choices": ()})
        yield counts.model_dump_json()
    yield DONE
