"""First answers by idempotency key: a replay gets the same answer, another body is refused."""

import sqlite3
from dataclasses import dataclass

from engine.errors import IdempotencyError
from engine.server.database import Database

KEPT_ANSWERS = 4096
"""Older answers are forgotten; a retry that late reads the config back first."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to a mutation: status, JSON body, and the ETag that held then."""

    status: int
    body: str
    etag: str | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Ticket:
    """The caller's key and the fingerprint of what it asked."""

    key: str
    fingerprint: str


def first_answer(database: Database, ticket: Ticket) -> Answer | None:
    """The answer already given to this key, or None.

    Raises:
        IdempotencyError: the key was used for another request.
    """
    rows = database.rows(
        "SELECT fingerprint, status, body, etag FROM answers WHERE key = ?", ticket.key
    )
    if not rows:
        return None
    fingerprint, status, body, etag = rows[0]
    if fingerprint != ticket.fingerprint:
        raise IdempotencyError(
            f"Idempotency-Key {ticket.key!r} was used for another request; take a new key",
            field="Idempotency-Key", value=ticket.key, bound="one key, one request",
        )  # fmt: skip
    return Answer(status=int(status), body=body, etag=etag, replayed=True)


def remember_answer(connection: sqlite3.Connection, ticket: Ticket | None, answer: Answer) -> None:
    """Store an answer inside the transaction of what it reports; None is the engine itself."""
    if ticket is None:
        return
    cursor = connection.execute(
        "INSERT INTO answers (key, fingerprint, status, body, etag) VALUES (?, ?, ?, ?, ?)",
        (ticket.key, ticket.fingerprint, answer.status, answer.body, answer.etag),
    )
    connection.execute(
        "DELETE FROM answers WHERE sequence <= ?", ((cursor.lastrowid or 0) - KEPT_ANSWERS,)
    )
