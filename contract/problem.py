"""RFC 9457 problem details, the one shape of every error body."""

from typing import Any

from pydantic import BaseModel, ConfigDict

PROBLEM_MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong, with the field, the value and the bound where one was broken.

    Attributes:
        type: stable kind of the problem, e.g. "config-out-of-bounds".
        title: the kind in a few words.
        status: HTTP status.
        detail: one sentence that says what to do next.
        field: dotted path of the offending field.
        value: the offending value.
        bound: the bound or the known choices.
        current: what the caller should have known (the present ETag, the higher epoch).
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: Any = None
    bound: Any = None
    current: Any = None
