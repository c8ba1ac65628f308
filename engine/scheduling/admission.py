"""Who may enter the queue. Pure: numbers in, an error or nothing out."""

import math
from dataclasses import dataclass

from engine.errors import BadRequestError, PromptTooLongError, QueueFullError
from engine.scheduling.kv_blocks import num_blocks_for

_LONGEST_RETRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """What fits: `queue_limit` requests wait, a sequence has `context_tokens` at most."""

    queue_limit: int
    context_tokens: int
    kv_blocks: int
    block_tokens: int
    vocabulary: int


def check_request(limits: AdmissionLimits, token_ids: tuple[int, ...], max_tokens: int) -> None:
    """Refuse what could never run, whatever else the engine does.

    Raises:
        BadRequestError: the prompt is empty, a token id is unknown, or no output is wanted.
        PromptTooLongError: prompt and output exceed the context or the KV blocks of a rank.
    """
    if not token_ids:
        raise BadRequestError("prompt is empty; give at least one token", field="prompt", bound=1)
    if max_tokens < 1:
        raise BadRequestError(
            f"max_tokens is {max_tokens}, below 1", field="max_tokens", value=max_tokens, bound=1
        )
    top = max(token_ids)
    if top >= limits.vocabulary or min(token_ids) < 0:
        bad = top if top >= limits.vocabulary else min(token_ids)
        raise BadRequestError(
            f"token id {bad} is outside the vocabulary of {limits.vocabulary}",
            field="prompt", value=bad, bound=limits.vocabulary - 1,
        )  # fmt: skip
    total = len(token_ids) + max_tokens
    if total > limits.context_tokens:
        raise PromptTooLongError(
            f"prompt of {len(token_ids)} tokens and max_tokens {max_tokens} make {total}, "
            f"over the context of {limits.context_tokens}",
            field="prompt", value=total, bound=limits.context_tokens,
        )  # fmt: skip
    blocks = num_blocks_for(total, limits.block_tokens)
    if blocks > limits.kv_blocks:
        raise PromptTooLongError(
            f"the sequence needs {blocks} KV blocks, a rank has {limits.kv_blocks}",
            field="prompt", value=blocks, bound=limits.kv_blocks,
        )  # fmt: skip


def check_queue(limits: AdmissionLimits, num_waiting: int, finished_per_second: float) -> None:
    """Refuse one request more than may wait, with the time after which a place should be free.

    Args:
        limits: the queue's bound.
        num_waiting: requests that wait now.
        finished_per_second: recent rate of finished requests, 0 when unknown.

    Raises:
        QueueFullError: answered 429 with Retry-After.
    """
    if num_waiting < limits.queue_limit:
        return
    wait = num_waiting / finished_per_second if finished_per_second > 0 else 1.0
    raise QueueFullError(
        f"{num_waiting} requests wait, the queue limit is {limits.queue_limit}",
        retry_after_seconds=float(min(_LONGEST_RETRY_SECONDS, max(1.0, math.ceil(wait)))),
        field="queue", value=num_waiting, bound=limits.queue_limit,
    )  # fmt: skip
