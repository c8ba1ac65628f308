"""Debian's Prometheus scraping the same counts, where it is installed: what a user would try first.

Every count is a series, as it would have to be. Eight engines rather than 64: the reference needs
3 GB for 64. The exposition is served by this process, so only Prometheus' own cost is counted.
"""

import http.client
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from trimtab.bench.figure import Figure
from trimtab.bench.plane import ProcessCost
from trimtab.bench.reference_load import EXPERTS, LAYERS, LOAD_COUNTS, ReferenceLoad
from trimtab.bench.stream import wait_until
from trimtab.demo.processes import free_port

ENGINES = 8
SECONDS = 30
SETTLE_SECONDS = 5
START_SECONDS = 60
BODIES = 12
QUERY = "max(sum by (layer, expert) (rate(moe_load_total[10s])))"
_CONFIG = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}}


def run() -> list[Figure]:
    """Cost, bytes a sample and one fleet query; nothing where Prometheus is not installed."""
    program = shutil.which("prometheus")
    if program is None:
        return []
    with tempfile.TemporaryDirectory() as name, _exposition() as target:
        folder, port = Path(name), free_port()
        with _prometheus(program, folder, port, target) as process:
            cost = ProcessCost(process.pid)
            _wait_until_scraping(port)
            wait_until(time.perf_counter() + SETTLE_SECONDS)
            began, cpu, before = time.perf_counter(), cost.cpu_seconds(), _appended(port)
            wait_until(began + SECONDS)
            seconds = time.perf_counter() - began
            share = (cost.cpu_seconds() - cpu) / seconds
            samples = _appended(port)
            stored = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            asked = time.perf_counter()
            _get(port, "/api/v1/query?" + urllib.parse.urlencode({"query": QUERY}))
            answered = time.perf_counter() - asked
            rss = cost.rss_mb()
    rate = (samples - before) / seconds
    told = f"{ENGINES} engines × {LOAD_COUNTS} series, {rate:,.0f} samples/s held; for comparison"
    return [
        Figure("ingest.prometheus8.core_share", share, "cores", n=SECONDS, against=told),
        Figure("ingest.prometheus8.rss_mb", rss, "MiB", against=told),
        Figure(
            "ingest.prometheus8.bytes_per_sample", stored / samples, "B", n=int(samples),
            against="write-ahead log and head; 3.1 B once compacted (reference)",
        ),
        Figure("ingest.prometheus8.fleet_query_s", answered, "s", against=QUERY),
    ]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    """Serves the body of the present second."""

    bodies: tuple[bytes, ...] = ()
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.bodies[int(time.monotonic()) % len(self.bodies)]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    """A scrape that times out hangs up; the samples that were held say so."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing."""


@contextmanager
def _exposition() -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"bodies": _bodies()})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def _bodies() -> tuple[bytes, ...]:
    """Expositions of the reference load as counters that grow; they begin anew after the last."""
    load = ReferenceLoad(phases=(1,))
    total = np.zeros((LAYERS, EXPERTS), dtype=np.int64)
    bodies: list[bytes] = []
    for _ in range(BODIES):
        total += load.arrays()["assignments"][1]
        lines = ["# TYPE moe_load_total counter"]
        lines += [
            f'moe_load_total{{layer="{layer}",expert="{expert}"}} {count}'
            for layer, row in enumerate(total.tolist()) for expert, count in enumerate(row)
        ]  # fmt: skip
        bodies.append(("\n".join(lines) + "\n").encode())
    return tuple(bodies)


@contextmanager
def _prometheus(
    program: str, folder: Path, port: int, target: str
) -> Iterator[subprocess.Popen[bytes]]:
    groups = [{"targets": [target], "labels": {"engine": f"e{i}"}} for i in range(ENGINES)]
    config = _CONFIG | {"scrape_configs": [{"job_name": "moe", "static_configs": groups}]}
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config), "utf-8")  # JSON is YAML
    data = folder / "data"
    process = subprocess.Popen(
        [program, f"--config.file={file}", f"--storage.tsdb.path={data}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def _appended(port: int) -> float:
    """Samples so far; the series is there once the first one is."""
    return sum(
        float(line.split()[-1]) for line in _get(port, "/metrics").decode().splitlines()
        if line.startswith("prometheus_tsdb_head_samples_appended_total")
    )  # fmt: skip


def _wait_until_scraping(port: int) -> None:
    """Wait for the first whole scrape of every engine.

    Raises:
        TimeoutError: that took over a minute.
    """
    deadline = time.perf_counter() + START_SECONDS
    while time.perf_counter() < deadline:
        try:
            if _appended(port) >= ENGINES * LOAD_COUNTS:
                return
        except (OSError, http.client.HTTPException, RuntimeError):
            pass  # it does not listen yet
        wait_until(time.perf_counter() + 0.5)
    raise TimeoutError(f"Prometheus did not scrape within {START_SECONDS} s: no figure")


def _get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"Prometheus answered {answer.status} to {path}")
    return body
