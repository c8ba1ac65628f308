"""What an answer of the control plane means for the frames that were sent."""

from enum import StrEnum

import httpx
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from pydantic import ValidationError

from contract.headers import CONTENT_TYPE_PROTOBUF
from contract.problem import Problem

_UNACCEPTABLE = frozenset({400, 415, 422, 500})
"""Verdicts on the body, which is the same the next time; one that a receiver fails at (500) would
hold up every later one."""
_TOO_LARGE = frozenset({413})
_BUSY = frozenset({408, 429, 502, 503, 504})
_UNTRUSTED = frozenset({401, 403})
_MOST_CHARACTERS = 200


class Verdict(StrEnum):
    """What becomes of a batch."""

    SENT = "sent"
    BUSY = "busy"
    """Kept: the control plane cannot take it now."""
    UNTRUSTED = "untrusted"
    """Kept: the control plane does not know or allow the token. Tokens are put right."""
    MISDIRECTED = "misdirected"
    """Kept: something answers that takes no frames, a wrong address or a proxy on the way."""
    TOO_LARGE = "too-large"
    """Sent again in halves; a frame that is too large alone is dropped."""
    REFUSED = "refused"
    """Dropped: this body will never be accepted."""


def verdict(status: int) -> Verdict:
    """What an HTTP status says of the frames."""
    if 200 <= status < 300:
        return Verdict.SENT
    for found, statuses in (
        (Verdict.REFUSED, _UNACCEPTABLE), (Verdict.TOO_LARGE, _TOO_LARGE), (Verdict.BUSY, _BUSY),
        (Verdict.UNTRUSTED, _UNTRUSTED),
    ):  # fmt: skip
        if status in statuses:
            return found
    return Verdict.MISDIRECTED


def words(answer: httpx.Response) -> str:
    """The reason that an answer gives, as far as it can be read, after its status."""
    return f"{answer.status_code} {_reason(answer)[:_MOST_CHARACTERS]}".rstrip()


def _reason(answer: httpx.Response) -> str:
    try:
        if answer.headers.get("content-type", "").startswith(CONTENT_TYPE_PROTOBUF):
            return str(Status.FromString(answer.content).message)
        return Problem.model_validate_json(answer.content).detail
    except (DecodeError, ValidationError):
        return answer.reason_phrase
