"""Small facts that outlive the process: the fencing epoch, the freeze, the last generation."""

import sqlite3

from engine.server.database import Database


def read_fact(database: Database, name: str, default: str) -> str:
    """The stored value of `name`."""
    rows = database.rows("SELECT value FROM facts WHERE name = ?", name)
    return rows[0][0] if rows else default


def write_fact(connection: sqlite3.Connection, name: str, value: str) -> None:
    """Set `name`, inside a transaction."""
    connection.execute("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", (name, value))
