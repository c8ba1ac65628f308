import pytest

from engine.errors import BadRequestError, PromptTooLongError, QueueFullError
from engine.scheduling.admission import AdmissionLimits, check_queue, check_request

LIMITS = AdmissionLimits(
    queue_limit=2, context_tokens=32, kv_blocks=8, block_tokens=2, vocabulary=10
)


def test_a_request_that_fits_is_admitted():
    check_request(LIMITS, (1, 2, 3), 13)
    check_queue(LIMITS, 1, 0.0)


@pytest.mark.parametrize(
    ("token_ids", "max_tokens", "match"),
    [
        ((), 4, "prompt is empty"),
        ((1,), 0, "max_tokens is 0, below 1"),
        ((1, 10), 4, "token id 10 is outside the vocabulary of 10"),
        ((-1, 3), 4, "token id -1 is outside"),
    ],
)
def test_a_bad_request_is_named(token_ids, max_tokens, match):
    with pytest.raises(BadRequestError, match=match):
        check_request(LIMITS, token_ids, max_tokens)


@pytest.mark.parametrize(
    ("num_prompt", "max_tokens", "match"),
    [(30, 3, "make 33, over the context of 32"), (10, 8, "needs 9 KV blocks, a rank has 8")],
)
def test_what_can_never_fit_is_refused(num_prompt, max_tokens, match):
    with pytest.raises(PromptTooLongError, match=match):
        check_request(LIMITS, (1,) * num_prompt, max_tokens)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 1.0), (0.5, 4.0), (100.0, 1.0), (0.01, 30.0)])
def test_a_full_queue_says_when_to_come_back(rate, expected):
    with pytest.raises(QueueFullError, match="2 requests wait, the queue limit is 2") as caught:
        check_queue(LIMITS, 2, rate)
    assert caught.value.retry_after_seconds == expected
