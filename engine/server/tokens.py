"""Access tokens of an engine: 256 random bits, kept as SHA-256, each with one role.

The file is JSON: `{"tokens": [{"name", "role", "sha256"}]}`, mode 0600. A token is shown once, when
it is made. A plain hash is enough: nobody can guess 256 random bits.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from contract.access_name import ACCESS_NAME_BOUND, fault_of_name
from contract.model import ContractModel
from contract.runtime_config import HASH_PATTERN
from contract.written import Written
from engine.errors import BadRequestError
from engine.server.durable import write_file

_PREFIX = "ttk_"


class Role(StrEnum):
    """What a token may do on an engine."""

    INFERENCE = "inference"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


_GRANTS: dict[Role, frozenset[Role]] = {
    Role.INFERENCE: frozenset({Role.INFERENCE}),
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.OPERATOR: frozenset({Role.VIEWER, Role.OPERATOR}),
    Role.ADMIN: frozenset(Role),
}


class TokenRecord(ContractModel):
    """One token at rest.

    Attributes:
        name: whose it is; unique.
        role: what it may do.
        sha256: of the token, in hex.
    """

    name: str = Field(min_length=1, max_length=128)
    role: Role
    sha256: Annotated[str, Written(HASH_PATTERN, "have 64 hexadecimal digits, 0-9 a-f")]

    def allows(self, role: Role) -> bool:
        """Whether this token may do what `role` may do; inference is apart from the rest."""
        return role in _GRANTS[self.role]


class TokenFile(ContractModel):
    """The file's body."""

    tokens: tuple[TokenRecord, ...] = ()


def token_hash(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(path: Path, *, name: str, role: Role) -> str:
    """Make a token, add its hash to the file (made if absent, mode 0600), and give the token."""
    fault = fault_of_name(name)
    if fault is not None:
        raise BadRequestError(f"token {fault}", field="name", value=name, bound=ACCESS_NAME_BOUND)
    stored = read_tokens(path) if path.exists() else ()
    if any(record.name == name for record in stored):
        raise BadRequestError(
            f"{path} already has a token called {name!r}; take another name",
            field="name", value=name, bound="an unused name",
        )  # fmt: skip
    token = _PREFIX + secrets.token_urlsafe(32)
    record = TokenRecord(name=name, role=role, sha256=token_hash(token))
    path.parent.mkdir(parents=True, exist_ok=True)
    body = TokenFile(tokens=(*stored, record)).model_dump_json(indent=2)
    write_file(path, body.encode() + b"\n", mode=0o600)
    return token


def read_tokens(path: Path) -> tuple[TokenRecord, ...]:
    """The records of a token file; BadRequestError says what is wrong with it."""
    try:
        return TokenFile.model_validate_json(path.read_bytes()).tokens
    except OSError as error:
        raise BadRequestError(
            f"token file {path} cannot be read: {error.strerror}", field="token_file",
            value=str(path),
        ) from None  # fmt: skip
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        said = first["msg"].removeprefix("Value error, ")
        raise BadRequestError(
            f"token file {path}: {where}: {said}", field="token_file",
            value=str(path),
        ) from None  # fmt: skip


def find_token(records: Iterable[TokenRecord], token: str) -> TokenRecord | None:
    """The record of a token; every record is compared, each in constant time."""
    wanted = token_hash(token)
    found: TokenRecord | None = None
    for record in records:
        if hmac.compare_digest(record.sha256, wanted):
            found = record
    return found
