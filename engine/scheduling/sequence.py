"""One request's tokens, and how far the KV cache has them."""

import zlib
from dataclasses import dataclass, field
from enum import Enum

from contract.frame import NUM_BUCKETS


class SequenceState(Enum):
    """Where a sequence is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class FinishReason(Enum):
    """Why a sequence ended; the values are those of the completions API."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn; temperature 0 is greedy. `seed` is the sequence's own."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


@dataclass(slots=True, eq=False)
class Sequence:
    """A request as the scheduler sees it.

    Attributes:
        request_id: unique among live requests.
        token_ids: prompt, then output so far.
        num_prompt_tokens: how many of `token_ids` came in.
        max_tokens: output tokens wanted at most.
        eos_token_ids: output that ends the sequence.
        sampling: how tokens are drawn.
        bucket: request-hash bucket, the same for all of a request's tokens.
        num_computed_tokens: tokens whose keys and values are in the cache.
        block_table: KV block ids on `rank`, in order of position.
        rank: owner of the cache; None while waiting.
        generation: live config generation when the sequence first ran.
        num_preemptions: how often it lost its blocks.
    """

    request_id: str
    token_ids: list[int]
    num_prompt_tokens: int
    max_tokens: int
    eos_token_ids: frozenset[int] = frozenset()
    sampling: Sampling = Sampling()
    bucket: int = 0
    state: SequenceState = SequenceState.WAITING
    finish_reason: FinishReason | None = None
    num_computed_tokens: int = 0
    block_table: list[int] = field(default_factory=list)
    rank: int | None = None
    generation: int | None = None
    num_preemptions: int = 0

    @property
    def num_output_tokens(self) -> int:
        """Tokens generated so far."""
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        """Tokens that must pass the model before the next one can be drawn."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def is_decoding(self) -> bool:
        """Whether only its newest output token is left to pass the model."""
        num_tokens = len(self.token_ids)
        return num_tokens > self.num_prompt_tokens and num_tokens - self.num_computed_tokens == 1

    def append(self, token_id: int) -> None:
        """Take an output token and finish where it ends the sequence."""
        self.token_ids.append(token_id)
        if token_id in self.eos_token_ids:
            self.finish_reason = FinishReason.STOP
        elif self.num_output_tokens >= self.max_tokens:
            self.finish_reason = FinishReason.LENGTH


def request_bucket(request_id: str) -> int:
    """Hash bucket of a request in [0, NUM_BUCKETS), stable over processes."""
    return zlib.crc32(request_id.encode()) % NUM_BUCKETS
