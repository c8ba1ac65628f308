"""A control plane as a process that tests may kill: serves on a port, and seals without pause.

Run as `python -m tests.support.plane_process URL PORT TOKEN`; prints "ready" when it serves.
"""

import sys
import threading

import uvicorn

from controlplane.app import create_app
from controlplane.db.database import open_database
from controlplane.settings import load_settings
from migrations.run import upgrade


def main(database_url: str, port: str, token: str) -> None:
    settings = load_settings(
        database_url=database_url,
        port=int(port),
        engines=[{"id": "e0", "url": "http://127.0.0.1:1", "telemetry_token": token}],
        history={"ring_frames": 120},
        ingest={"gather_seconds": 0},
    )
    database = open_database(database_url)
    upgrade(database)
    app = create_app(settings, database=database)
    stopping = threading.Event()

    def seal() -> None:
        while not stopping.wait(0.02):
            app.state.plane.upkeep.seal()

    threading.Thread(target=seal, daemon=True).start()
    config = uvicorn.Config(app, port=settings.port, log_level="warning")
    server = uvicorn.Server(config)
    started = threading.Timer(0, lambda: _announce(server))
    started.start()
    server.run()
    stopping.set()


def _announce(server: uvicorn.Server) -> None:
    waiting = threading.Event()
    while not server.started:
        waiting.wait(0.01)
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
