"""`trimtab serve`: the control plane over HTTP."""

import asyncio
import gc
import logging
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import click
import uvicorn

from contract.keep_alive import SERVER_KEEP_ALIVE_SECONDS
from controlplane.allocator import few_arenas
from controlplane.app import create_app
from controlplane.audit import access_changes
from controlplane.auth.roles import Role
from controlplane.auth.routes import LOGIN_PATH
from controlplane.auth.sessions import SessionStore
from controlplane.clock import SystemClock
from controlplane.db.database import Database, open_database
from controlplane.ingest.connections import ReadTogether
from controlplane.settings import Settings, load_settings
from migrations.run import upgrade
from trimtab.commands.options import at_the_shell, config_option, one_sentence_errors
from trimtab.errors import InputError

_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Listening on every address is no address to open; who runs the command sits on this machine."""

COLLECT_AFTER = 20_000
NOT_STARTED = 3
"""The exit status that uvicorn has for it."""


@click.command(epilog="Example: trimtab serve --port 8700 --login")
@config_option
@click.option("--host", default=None, help="Where to listen; loopback unless TLS is configured.")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Port to listen on.")
@click.option(
    "--upgrade/--no-upgrade",
    "upgrade_first",
    default=True,
    show_default=True,
    help="Bring the database's schema up to date first.",
)
@click.option("--login", is_flag=True, help="Print a link that logs an administrator in once.")
def command(
    config: Path | None, host: str | None, port: int | None, upgrade_first: bool, login: bool
) -> None:  # fmt: skip
    """Run the control plane."""
    few_arenas()
    with one_sentence_errors():
        overrides = {"host": host, "port": port}
        settings = load_settings(config, **{k: v for k, v in overrides.items() if v is not None})
        database = open_database(settings.database_url)
        if upgrade_first:
            upgrade(database)
        if login:
            click.echo(f"Log in once: {login_url(settings, database)}")
        app = create_app(settings, database=database)
        app.state.governor.check()
    _check_tls(settings)
    _check_address(settings.host, settings.port)
    _collect_seldom()
    # A run is left out while the one before still runs: normal, and seen in trimtab_job_seconds.
    logging.getLogger("apscheduler.scheduler").setLevel(logging.ERROR)
    serving = uvicorn.Config(
        app, host=settings.host, port=settings.port, log_level="warning",
        access_log=False, server_header=False,
        http=ReadTogether(settings.ingest.gather_seconds).protocol(),
        ssl_certfile=settings.tls_certificate, ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=5, timeout_keep_alive=SERVER_KEEP_ALIVE_SECONDS,
    )  # fmt: skip
    server = _Server(serving)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(NOT_STARTED)


class _Server(uvicorn.Server):
    """uvicorn that asks twice a second whether to stop, not ten times: each is a wake-up."""

    async def main_loop(self) -> None:
        """Until it is to stop; every tenth tick is a second, for the Date header."""
        ticks = 0
        while not await self.on_tick(ticks):
            await asyncio.sleep(0.5)
            ticks = (ticks + 5) % 10


def _collect_seldom() -> None:
    """Leave what was loaded out of collections, and have fewer.

    What is made of a frame has no cycles: it is gone without a collection, yet every 700 objects
    of it start one.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


def _check_address(host: str, port: int) -> None:
    """Say in a sentence that an address is taken, before anything starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another port with --port"
        ) from None


def _check_tls(settings: Settings) -> None:
    """Refuse TLS files that cannot be read before anything listens."""
    if settings.tls_certificate is None:
        return
    try:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    except OSError as error:  # ssl.SSLError is one
        raise InputError(
            f"TLS files {settings.tls_certificate} and {settings.tls_key} cannot be used: {error}"
        ) from None


def login_url(settings: Settings, database: Database, *, name: str = "admin") -> str:
    """A URL that opens an administrator's session once."""
    sessions = SessionStore(
        database, SystemClock(), access_changes.record,
        link_seconds=settings.auth.login_link_seconds,
        session_seconds=settings.auth.session_hours * 3600,
    )  # fmt: skip
    scheme = "https" if settings.tls else "http"
    host = _LOOPBACK_OF.get(settings.host, settings.host)
    host = f"[{host}]" if ":" in host else host
    link = sessions.new_link(name, Role.ADMIN, by=at_the_shell())
    return f"{scheme}://{host}:{settings.port}{LOGIN_PATH}?link={link}"
