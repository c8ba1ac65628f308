"""Generations of the runtime config, immutable and durable, with the leases of the live one.

A change is stored twice: as an *intent* before any rank hears of it, and as *committed* once all
ranks run it. After a crash in between, the last committed generation is the truth; the number of
the lost one is never used again, since frames may have carried it.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from contract.admin import ConfigDocument
from engine.errors import NotFoundError
from engine.server.answers import Answer, Ticket, remember_answer
from engine.server.database import Database
from engine.server.facts import read_fact, write_fact
from engine.server.leases import HeldLease


class ConfigStore:
    """The stored state; reads come from memory, every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._current = self._newest()
        self.epoch_seen = int(read_fact(database, "epoch_seen", "0"))
        self.freeze_reason = read_fact(database, "freeze_reason", "")
        self._highest = int(read_fact(database, "highest_generation", "0"))

    def _newest(self) -> ConfigDocument | None:
        rows = self._database.rows(
            "SELECT document FROM generations ORDER BY generation DESC LIMIT 1"
        )
        return ConfigDocument.model_validate_json(rows[0][0]) if rows else None

    @property
    def is_empty(self) -> bool:
        """Whether no generation was ever committed."""
        return self._current is None

    @property
    def current(self) -> ConfigDocument:
        """The last committed generation."""
        if self._current is None:
            raise NotFoundError("no generation is committed yet", field="generation")
        return self._current

    @property
    def next_generation(self) -> int:
        """The number that the next change takes; numbers of lost intents stay unused."""
        return self._highest + 1

    def document(self, generation: int) -> ConfigDocument:
        """A committed generation by number."""
        rows = self._database.rows(
            "SELECT document FROM generations WHERE generation = ?", generation
        )
        if not rows:
            raise NotFoundError(
                f"generation {generation} is not stored; the newest is {self.current.generation}",
                field="to", value=generation, bound=f"1 … {self.current.generation}",
            )  # fmt: skip
        return ConfigDocument.model_validate_json(rows[0][0])

    def history(self, limit: int) -> tuple[ConfigDocument, ...]:
        """The newest `limit` committed generations, oldest first."""
        rows = self._database.rows(
            "SELECT document FROM generations ORDER BY generation DESC LIMIT ?", limit
        )
        return tuple(ConfigDocument.model_validate_json(row[0]) for row in reversed(rows))

    def lost_intent(self) -> ConfigDocument | None:
        """A change that a crash cut off between its intent and its commit."""
        rows = self._database.rows("SELECT document FROM intent")
        return ConfigDocument.model_validate_json(rows[0][0]) if rows else None

    def begin(self, document: ConfigDocument) -> None:
        """Store the intent of a change, before any rank hears of it."""
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO intent (only_one, document) VALUES (1, ?)",
                (document.model_dump_json(),),
            )
            write_fact(connection, "highest_generation", str(document.generation))
        self._highest = document.generation

    def abandon(self) -> None:
        """Forget the intent: no rank runs it."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM intent")

    def commit(
        self,
        document: ConfigDocument,
        leases: Mapping[str, HeldLease],
        *,
        ticket: Ticket | None,
        answer: Answer,
    ) -> None:
        """Store a change that every rank runs, its leases and its answer, in one transaction."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM intent")
            connection.execute(
                "INSERT INTO generations (generation, document) VALUES (?, ?)",
                (document.generation, document.model_dump_json()),
            )
            _replace_leases(connection, leases.values())
            remember_answer(connection, ticket, answer)
        self._current = document

    def renew(
        self, leases: Mapping[str, HeldLease], *, ticket: Ticket | None, answer: Answer
    ) -> None:
        """Store leases and the answer of a change that mints no generation."""
        with self._database.transaction() as connection:
            _replace_leases(connection, leases.values())
            remember_answer(connection, ticket, answer)

    def leases(self, now: float) -> dict[str, HeldLease]:
        """Stored leases, each with its full time from `now`."""
        rows = self._database.rows("SELECT lease FROM leases")
        stored = [HeldLease(**json.loads(row[0]), deadline=0.0) for row in rows]
        return {lease.knob: lease.later(now + lease.duration_seconds) for lease in stored}

    def see_epoch(self, epoch: int) -> None:
        """Remember a higher fencing epoch."""
        with self._database.transaction() as connection:
            write_fact(connection, "epoch_seen", str(epoch))
        self.epoch_seen = epoch

    def set_freeze(self, reason: str, *, ticket: Ticket | None, answer: Answer) -> None:
        """Freeze with a reason, or unfreeze with an empty one."""
        with self._database.transaction() as connection:
            write_fact(connection, "freeze_reason", reason)
            remember_answer(connection, ticket, answer)
        self.freeze_reason = reason


def _replace_leases(connection: sqlite3.Connection, leases: Iterable[HeldLease]) -> None:
    connection.execute("DELETE FROM leases")
    for lease in leases:
        body = asdict(lease)
        del body["deadline"]
        connection.execute(
            "INSERT INTO leases (knob, lease) VALUES (?, ?)", (lease.knob, json.dumps(body))
        )
