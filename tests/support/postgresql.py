"""A throw-away PostgreSQL cluster of Debian's binaries, in a temporary directory."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

ROOTS = Path("/usr/lib/postgresql")


def binaries() -> Path | None:
    """The newest installed server's `bin`, or None."""
    found = sorted(ROOTS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _as_server_user() -> list[str]:
    """PostgreSQL refuses to run as root; its package brings a user of its own."""
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


class Cluster:
    """A running server; `new_database()` gives the URL of an empty database."""

    def __init__(self, port: int) -> None:
        self.port = port

    def new_database(self, template: str = "template1") -> str:
        name = f"t{uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://trimtab@127.0.0.1:{self.port}/{name}"


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a server, stop it and delete its files at the end; skips where none is installed."""
    programs = binaries()
    if programs is None:
        pytest.skip("Debian's postgresql is not installed")
    user = _as_server_user()
    folder = Path(tempfile.mkdtemp(prefix="trimtab-pg-"))
    if user:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    try:
        subprocess.run(
            [*user, programs / "initdb", "-D", data, "-U", "trimtab", "-A", "trust", "-N",
             "--locale=C.UTF-8"],
            check=True, capture_output=True,
        )  # fmt: skip
        port = _free_port()
        options = (
            f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c shared_buffers=32MB"
            " -c fsync=off"
        )
        subprocess.run(
            [*user, programs / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log",
             "start"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield Cluster(port)
        finally:
            subprocess.run(
                [*user, programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"],
                check=True, capture_output=True,
            )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
