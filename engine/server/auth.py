"""Who may call what: bearer tokens on every route that is not open by setting."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import Request

from engine.errors import BadRequestError, PermissionDeniedError, UnauthenticatedError
from engine.server.tokens import Role, TokenRecord, find_token, read_tokens

_log = logging.getLogger(__name__)


class TokenBook:
    """The engine's tokens; its file is read again when it changes, so a token can be revoked."""

    def __init__(self, path: Path | None, fixed: tuple[TokenRecord, ...] = ()) -> None:
        self._path = path
        self._fixed = fixed
        self._stamp = self._file_stamp()
        self._records = () if path is None else read_tokens(path)

    def records(self) -> tuple[TokenRecord, ...]:
        """All tokens now; a file that became unreadable has none."""
        stamp = self._file_stamp()
        if self._path is not None and stamp != self._stamp:
            self._stamp = stamp
            try:
                self._records = read_tokens(self._path)
            except BadRequestError as error:
                _log.warning("%s: its tokens are refused until it is mended", error)
                self._records = ()
        return self._records + self._fixed

    def _file_stamp(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def require(book: TokenBook, role: Role) -> Callable[[Request], Awaitable[None]]:
    """A FastAPI dependency: the request must carry a token that allows `role`."""

    async def check(request: Request) -> None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        record = find_token(book.records(), token.strip()) if scheme.lower() == "bearer" else None
        if record is None:
            raise UnauthenticatedError(
                "send a token of this engine as `Authorization: Bearer TOKEN`; make one with "
                "`trimtab token create --engine-tokens FILE`",
                field="Authorization", bound=f"a token with the role {role}",
            )  # fmt: skip
        if not record.allows(role):
            raise PermissionDeniedError(
                f"token {record.name!r} has the role {record.role}; this needs {role}",
                field="role", value=record.role, bound=role,
            )  # fmt: skip

    return check
