"""Errors of the engine.

EngineError
├── BadRequestError          a request or a body is not acceptable: field, value, bound (400 / 422)
│   ├── PromptTooLongError   more tokens than the context holds (400)
│   └── BodyTooLargeError    more bytes than a body may have (413)
├── UnauthenticatedError     no valid token (401)
├── PermissionDeniedError    a token without the role (403)
├── NotFoundError            unknown generation, bias version, model (404)
├── PreconditionError        If-Match absent (428) or stale (412)
├── StaleEpochError          fencing epoch below the one already seen (409)
├── IdempotencyError         same key, other body (422)
├── FrozenError              the engine is frozen (423)
├── RefusedError             the engine's own safety says no: memory, capability (409)
├── QueueFullError           admission queue is full: retry later (429)
├── NotReadyError            starting, stopping, or failed (503)
├── CheckpointError          a checkpoint tensor or config field is missing, extra or wrong
├── CorruptSnapshotError     a stored bias does not match its hash (500)
├── StateError               the state folder cannot be read, written, or is another model's (500)
└── RankFailedError          a rank died or stopped answering; the engine ends
"""

from typing import Any

from contract.problem import Problem


class EngineError(Exception):
    """Base of every error that this program raises on purpose."""

    status = 500
    kind = "internal"

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        value: Any = None,
        bound: Any = None,
        current: Any = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = value
        self.bound = bound
        self.current = current

    def problem(self) -> Problem:
        """The RFC 9457 body of this error."""
        return Problem(
            type=self.kind, title=self.kind.replace("-", " ").capitalize(), status=self.status,
            detail=self.detail, field=self.field, value=self.value, bound=self.bound,
            current=self.current,
        )  # fmt: skip


class BadRequestError(EngineError):
    """A body or a value is not acceptable."""

    status = 422
    kind = "bad-request"


class PromptTooLongError(BadRequestError):
    """The prompt and the wanted output exceed the context."""

    status = 400
    kind = "prompt-too-long"


class BodyTooLargeError(BadRequestError):
    """A body has more bytes than the server reads."""

    status = 413
    kind = "body-too-large"


class UnauthenticatedError(EngineError):
    """The request carries no token that this engine knows."""

    status = 401
    kind = "unauthenticated"


class PermissionDeniedError(EngineError):
    """The token does not have the role that the route needs."""

    status = 403
    kind = "permission-denied"


class NotFoundError(EngineError):
    """The named thing does not exist."""

    status = 404
    kind = "not-found"


class PreconditionError(EngineError):
    """If-Match is absent (428) or stale (412)."""

    status = 412
    kind = "precondition-failed"

    def __init__(self, detail: str, *, absent: bool = False, **named: Any) -> None:
        super().__init__(detail, **named)
        if absent:
            self.status = 428
            self.kind = "precondition-required"


class StaleEpochError(EngineError):
    """The caller's fencing epoch is below the one this engine has seen."""

    status = 409
    kind = "stale-epoch"


class IdempotencyError(EngineError):
    """An idempotency key was used before with another body."""

    status = 422
    kind = "idempotency-key-reused"


class FrozenError(EngineError):
    """The engine is frozen: it refuses every change until it is unfrozen."""

    status = 423
    kind = "frozen"


class RefusedError(EngineError):
    """The engine has the last word on its own safety, and it is no."""

    status = 409
    kind = "refused"


class QueueFullError(EngineError):
    """The admission queue is full."""

    status = 429
    kind = "queue-full"

    def __init__(self, detail: str, *, retry_after_seconds: float, **named: Any) -> None:
        super().__init__(detail, **named)
        self.retry_after_seconds = retry_after_seconds


class NotReadyError(EngineError):
    """The engine is starting, stopping, or failed."""

    status = 503
    kind = "not-ready"


class CheckpointError(EngineError):
    """A checkpoint cannot be served as it is."""

    kind = "checkpoint"


class CorruptSnapshotError(EngineError):
    """A stored bias snapshot does not match its hash; it is never served."""

    kind = "corrupt-snapshot"


class StateError(EngineError):
    """The state folder cannot be used: locked, damaged, not writable, or of another model."""

    kind = "state"


class RankFailedError(EngineError):
    """A rank died or stopped answering; `rank` names it."""

    kind = "rank-failed"

    def __init__(self, detail: str, *, rank: int) -> None:
        super().__init__(detail, field="rank", value=rank)
        self.rank = rank
