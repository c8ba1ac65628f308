"""Errors of the control plane.

TrimtabError
├── InvalidInputError         bad value from outside: field, value, bound (HTTP 422)
├── NotFoundError             unknown engine, action, snapshot (404)
├── ConflictError             the world moved: stale page, action in flight (409)
│   └── ObserveOnlyError      the engine is watched, never acted on (409)
├── PermissionDeniedError     token without the role (403)
├── UnauthenticatedError      no valid token (401)
├── OverloadedError           bounded queue is full: retry later (429)
├── StorageError              the database cannot take a write now (503)
├── FencedError               this process lost its lease: stop acting
└── EngineError               an engine's admin API
    ├── EngineUnreachableError   no answer: the outcome is unknown, read back
    └── EngineRefusedError       an answer that says no (problem details inside)
"""

from typing import Any

from contract.problem import Problem


class TrimtabError(Exception):
    """Base of every error that this program raises on purpose."""

    status = 500
    kind = "internal"

    def __init__(
        self, detail: str, *, field: str | None = None, value: Any = None, bound: Any = None
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.value = value
        self.bound = bound

    def problem(self) -> Problem:
        """The RFC 9457 body of this error."""
        title = self.kind.replace("-", " ").capitalize()
        return Problem(
            type=self.kind, title=title, status=self.status, detail=self.detail,
            field=self.field, value=self.value, bound=self.bound,
        )  # fmt: skip


class InvalidInputError(TrimtabError):
    """A value from outside is not acceptable."""

    status = 422
    kind = "invalid-input"


class NotFoundError(TrimtabError):
    """The named thing does not exist."""

    status = 404
    kind = "not-found"


class ConflictError(TrimtabError):
    """The world moved since the caller looked."""

    status = 409
    kind = "conflict"


class ObserveOnlyError(ConflictError):
    """The engine is read by its metrics only: there is nothing that could be changed on it."""

    kind = "observe-only"


class PermissionDeniedError(TrimtabError):
    """The token lacks the role or the scope."""

    status = 403
    kind = "permission-denied"


class UnauthenticatedError(TrimtabError):
    """No valid token."""

    status = 401
    kind = "unauthenticated"


class OverloadedError(TrimtabError):
    """A bounded queue is full."""

    status = 429
    kind = "overloaded"

    def __init__(self, detail: str, *, retry_after_seconds: float = 1.0, **named: Any) -> None:
        super().__init__(detail, **named)
        self.retry_after_seconds = retry_after_seconds


class StorageError(TrimtabError):
    """The database cannot take a write now; nothing was acknowledged."""

    status = 503
    kind = "storage-unavailable"
    retry_after_seconds = 2.0


class FencedError(TrimtabError):
    """This process lost its lease: stop acting, do not clean up."""

    status = 409
    kind = "fenced"


class EngineError(TrimtabError):
    """An engine's admin API failed."""

    status = 502
    kind = "engine-error"


class EngineUnreachableError(EngineError):
    """No answer from the engine: the outcome is unknown until it is read back."""

    kind = "engine-unreachable"


class EngineRefusedError(EngineError):
    """The engine said no."""

    kind = "engine-refused"

    def __init__(self, answer: Problem) -> None:
        super().__init__(answer.detail, field=answer.field, value=answer.value, bound=answer.bound)
        self.answer = answer
