"""A throw-away PostgreSQL cluster: Debian's binaries, a temporary folder, a free port."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

ROOTS = Path("/usr/lib/postgresql")


def binaries() -> Path | None:
    """The newest installed server's `bin`, or None."""
    found = sorted(ROOTS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _as_server_user() -> list[str]:
    """PostgreSQL refuses to run as root; its package brings a user of its own."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


class Cluster:
    """A server of its own: `new_database()` gives the URL of an empty database."""

    def __init__(self, programs: Path, folder: Path, *, fsync: bool) -> None:
        self._programs = programs
        self._folder = folder
        self._user = _as_server_user()
        self._fsync = "on" if fsync else "off"
        self.port = _free_port()

    def initialise(self) -> None:
        """Make the cluster's files."""
        if self._user:
            shutil.chown(self._folder, "postgres")
        self._run(
            "initdb", "-U", "trimtab", "-A", "trust", "-N", "--locale=C.UTF-8", capture_output=True
        )

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = (
            f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1"
            f" -c shared_buffers=64MB -c fsync={self._fsync}"
        )
        self._run(
            "pg_ctl", "-w", "-o", options, "-l", str(self._folder / "log"), "start",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def stop(self) -> None:
        """Stop the server at once, as a crash would."""
        self._run("pg_ctl", "-m", "immediate", "-w", "stop", capture_output=True)

    def new_database(self, template: str = "template1") -> str:
        """The URL of a new, empty database, or of a copy of another one."""
        name = f"t{uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def url(self, name: str) -> str:
        """The URL of a database by name."""
        return f"postgresql://trimtab@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str, **how: Any) -> None:
        command = [*self._user, str(self._programs / program), "-D", str(self._folder / "data")]
        subprocess.run([*command, *arguments], check=True, **how)


@contextmanager
def cluster(*, fsync: bool) -> Iterator[Cluster]:
    """A running server; stopped, and its files deleted, at the end.

    Raises:
        FileNotFoundError: no server is installed.
    """
    programs = binaries()
    if programs is None:
        raise FileNotFoundError(f"no PostgreSQL server under {ROOTS}: install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="trimtab-pg-"))
    server = Cluster(programs, folder, fsync=fsync)
    try:
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
