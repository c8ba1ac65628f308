"""Bodies of `POST /v1/completions`, in OpenAI's shape, and their translation for the core."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from engine.errors import BadRequestError, NotFoundError, PromptTooLongError
from engine.server.core import GenerationRequest, ModelFacts
from engine.server.tokenizer import Tokenizer

_MAX_STOPS = 4
_MAX_STOP_CHARACTERS = 256
_DEFAULT_MAX_TOKENS = 16
_MAX_TOKEN_CHARACTERS = 128
"""No vocabulary that we serve has a longer token."""


def _text_or_ids(value: object) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(type(token) is int and token >= 0 for token in value):
        return value
    raise ValueError("send a text, or a list of token ids, which are integers >= 0")


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


StopString = Annotated[str, Field(min_length=1, max_length=_MAX_STOP_CHARACTERS)]
Stops = Annotated[list[StopString], Field(max_length=_MAX_STOPS)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StreamOptions(_Body):
    """What a stream sends beside text; `include_usage` adds a last chunk with the counts."""

    include_usage: bool = False


class CompletionRequest(_Body):
    """A completion; unknown fields are refused, so that a typo never changes the meaning."""

    model: str = Field(min_length=1, max_length=256)
    prompt: Annotated[str | list[int], PlainValidator(_text_or_ids)]
    max_tokens: int = Field(default=_DEFAULT_MAX_TOKENS, ge=1)
    temperature: float = Field(default=1.0, ge=0, le=2, allow_inf_nan=False)
    top_p: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    stop: Annotated[Stops | None, BeforeValidator(_one_or_many)] = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    ignore_eos: bool = False


class Usage(_Body):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Choice(_Body):
    """The one choice of an answer or a chunk."""

    index: Literal[0] = 0
    text: str
    logprobs: None = None
    finish_reason: str | None


class Completion(_Body):
    """An answer, or one chunk of a stream; the last chunk of a stream may have usage alone."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: Usage | None = None


def generation_request(
    body: CompletionRequest, model: ModelFacts, tokenizer: Tokenizer, request_id: str
) -> GenerationRequest:
    """Check a request against the model and translate it.

    Raises:
        NotFoundError: another model's name.
        BadRequestError: an empty prompt, or a token id outside the vocabulary.
        PromptTooLongError: prompt and output do not fit the context.
    """
    if body.model != model.name:
        raise NotFoundError(
            f"model {body.model!r} is not served here; use {model.name!r}",
            field="model", value=body.model, bound=[model.name],
        )  # fmt: skip
    token_ids = _token_ids(body.prompt, model, tokenizer)
    _check_prompt(token_ids, body.max_tokens, model)
    return GenerationRequest(
        request_id=request_id, token_ids=tuple(token_ids), max_tokens=body.max_tokens,
        temperature=body.temperature, top_p=body.top_p, seed=body.seed,
        ignore_eos=body.ignore_eos,
    )  # fmt: skip


def _token_ids(prompt: str | list[int], model: ModelFacts, tokenizer: Tokenizer) -> Sequence[int]:
    if not isinstance(prompt, str):
        return prompt
    most = model.context_tokens * _MAX_TOKEN_CHARACTERS
    if len(prompt) > most:  # not worth the time of splitting it into tokens
        raise PromptTooLongError(
            f"prompt has {len(prompt)} characters: more than a context of "
            f"{model.context_tokens} tokens can hold",
            field="prompt", value=len(prompt), bound=f"<= {most} characters",
        )  # fmt: skip
    return tokenizer.encode(prompt)


def _check_prompt(token_ids: Sequence[int], max_tokens: int, model: ModelFacts) -> None:
    if not token_ids:
        raise BadRequestError(
            "prompt has no tokens; send at least one", field="prompt", value=0, bound=">= 1 token"
        )
    context = model.context_tokens
    if max_tokens >= context:
        raise PromptTooLongError(
            f"max_tokens is {max_tokens}: a context of {context} tokens has at most {context - 1} "
            "beside a prompt",
            field="max_tokens", value=max_tokens, bound=f"<= {context - 1}",
        )  # fmt: skip
    if len(token_ids) + max_tokens > context:
        raise PromptTooLongError(
            f"prompt has {len(token_ids)} tokens and max_tokens is {max_tokens}: together "
            f"{len(token_ids) + max_tokens}, over the context of {context}",
            field="prompt", value=len(token_ids), bound=f"<= {context - max_tokens} tokens",
        )  # fmt: skip
    highest = max(token_ids)
    if highest >= model.vocabulary:
        raise BadRequestError(
            f"prompt holds token id {highest}; the vocabulary has {model.vocabulary}",
            field="prompt", value=highest, bound=f"< {model.vocabulary}",
        )  # fmt: skip
