"""A control plane in a process of its own, and senders that post frames to it over real HTTP."""

import http.client
import json
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from contract.frame_codec import Frame, encode
from contract.headers import CONTENT_TYPE_PROTOBUF, FRAME_EVENT_NAME, LOGS_PATH
from controlplane.audit import access_changes
from controlplane.auth.roles import Role
from controlplane.auth.tokens import TokenStore
from controlplane.clock import SystemClock
from controlplane.db.database import open_database
from migrations.run import upgrade
from trimtab.bench.reference_load import ReferenceLoad
from trimtab.demo.processes import Children, free_port

ADMIN_TOKEN = "tt_benchmark-admin"  # noqa: S105 - of a throw-away database
_PREFIX = struct.Struct("<4sBIII")
_START_SECONDS = 60.0
_CLOCK_TICKS = 100.0


class ProcessCost:
    """What a process has used so far, read from /proc."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cpu_seconds(self) -> float:
        """User and system time."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS

    def peak_rss_mb(self) -> float:
        """Largest resident size, in MiB."""
        return self._memory("VmHWM")

    def rss_mb(self) -> float:
        """Resident size now, in MiB."""
        return self._memory("VmRSS")

    def _memory(self, field: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"/proc/{self.pid}/status has no {field}")


def stolen_seconds() -> float:
    """Processor time that the host of this machine has given to others, all cores together."""
    fields = Path("/proc/stat").read_text("ascii").splitlines()[0].split()
    return int(fields[8]) / _CLOCK_TICKS


class RunningPlane(ProcessCost):
    """Where it listens, its process, and a telemetry token for each engine."""

    def __init__(
        self, port: int, pid: int, tokens: dict[str, str], admin_token: str = ADMIN_TOKEN
    ) -> None:
        super().__init__(pid)
        self.port = port
        self.tokens = tokens
        self._admin_token = admin_token

    def get(self, path: str) -> tuple[int, bytes]:
        """One authorised GET."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(
                "GET", path, headers={"Authorization": f"Bearer {self._admin_token}"}
            )
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@contextmanager
def running_plane(url: str, folder: Path, engines: Sequence[str]) -> Iterator[RunningPlane]:
    """Migrate the database, make tokens, and run `trimtab serve` on it."""
    database = open_database(url)
    upgrade(database)
    tokens = TokenStore(database, SystemClock(), access_changes.record)
    secrets = {
        name: tokens.create(name, Role.ENGINE, by="bench", engine_id=name) for name in engines
    }
    tokens.create("bench", Role.ADMIN, by="bench", secret=ADMIN_TOKEN)
    database.close()
    port = free_port()
    with Children(folder / "logs") as children:
        child = children.start_trimtab(
            "serve", ["serve", "--port", str(port)],
            {"TRIMTAB_DATABASE_URL": url, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        plane = RunningPlane(port, child.process.pid, secrets)
        wait_until_ready(plane, child.check)
        yield plane


def wait_until_ready(plane: RunningPlane, check: Callable[[], None]) -> None:
    """Wait for `/readyz`; `check` raises when the process has ended.

    Raises:
        TimeoutError: that took over a minute.
    """
    deadline = time.monotonic() + _START_SECONDS
    pause = threading.Event()
    while time.monotonic() < deadline:
        check()
        try:
            if plane.get("/readyz")[0] == 200:
                return
        except OSError:
            pass
        pause.wait(0.1)
    raise TimeoutError(f"the control plane was not ready within {_START_SECONDS:.0f} s")


class FrameMaker:
    """Encoded frames at little cost: packed arrays made once, headers written anew."""

    def __init__(self, variants: int = 8, *, phases: tuple[int, ...] = (0, 1)) -> None:
        self._load = ReferenceLoad(phases=phases)
        self._payloads: list[tuple[list[object], bytes]] = []
        for _ in range(variants):
            header = self._load.header("e0", 0, 0.0)
            packed = encode(Frame(header, self._load.arrays()))
            _, _, header_bytes, _, _ = _PREFIX.unpack_from(packed)
            start = _PREFIX.size
            text = zstandard.ZstdDecompressor().decompress(packed[start : start + header_bytes])
            arrays: list[object] = json.loads(text)["_arrays"]
            self._payloads.append((arrays, packed[start + header_bytes :]))

    def frame(self, engine_id: str, sequence: int, started: float) -> bytes:
        """One encoded frame."""
        arrays, payload = self._payloads[sequence % len(self._payloads)]
        body = self._load.header(engine_id, sequence, started).model_dump(mode="json")
        text = json.dumps({**body, "_arrays": arrays}, separators=(",", ":")).encode()
        # A compressor of its own for each call: one must not be used by two threads at once.
        header = zstandard.ZstdCompressor(level=3).compress(text)
        crc = zlib.crc32(payload, zlib.crc32(header))
        return _PREFIX.pack(b"MOEF", 1, len(header), len(payload), crc) + header + payload

    def request(self, engine_id: str, first: int, count: int, started: float) -> bytes:
        """The body of a request with `count` frames in a row."""
        request = ExportLogsServiceRequest()
        scope = request.resource_logs.add().scope_logs.add()
        for sequence in range(first, first + count):
            record = scope.log_records.add(event_name=FRAME_EVENT_NAME)
            record.body.bytes_value = self.frame(engine_id, sequence, started + sequence)
        body: bytes = request.SerializeToString()
        return body


class Sender:
    """A connection to the control plane that speaks for any of the engines, one at a time."""

    def __init__(self, plane: RunningPlane) -> None:
        self._plane = plane
        self._connection = http.client.HTTPConnection("127.0.0.1", plane.port, timeout=60)

    def post(self, engine_id: str, body: bytes) -> int:
        """Send one request; gives the status.

        Raises:
            OSError: the connection broke; the frames may or may not be stored.
        """
        headers = {
            "Authorization": f"Bearer {self._plane.tokens[engine_id]}",
            "Content-Type": CONTENT_TYPE_PROTOBUF,
        }
        self._connection.request("POST", LOGS_PATH, body, headers)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def in_threads(shares: Sequence[Sequence[str]], send: Callable[[Sequence[str]], None]) -> None:
    """Run `send` on each share in a thread of its own; the first error of any is raised."""
    with ThreadPoolExecutor(len(shares)) as pool:
        for done in [pool.submit(send, share) for share in shares]:
            done.result()


def require_stored(plane: RunningPlane, frames_each: int) -> None:
    """Ask the control plane what it has: a figure counts only if every frame was stored.

    Raises:
        RuntimeError: an engine has fewer or more frames, or a gap.
    """
    for engine_id, stored in frames_stored(plane).items():
        if stored != frames_each:
            raise RuntimeError(
                f"{engine_id} has {stored} frames stored, {frames_each} were sent: no figure"
            )


def frames_stored(plane: RunningPlane) -> dict[str, int]:
    """Frames that the control plane has of each engine."""
    stored = {}
    for engine_id in plane.tokens:
        status, body = plane.get(f"/api/v1/engines/{engine_id}/boots")
        boots = json.loads(body) if status == 200 else []
        stored[engine_id] = sum(boot["frames"] for boot in boots)
    return stored


def frames_missing(plane: RunningPlane) -> int:
    """Frames that the control plane knows to be missing, over all engines and a week.

    Raises:
        RuntimeError: it does not say.
    """
    end = time.time()  # noqa: TID251 - a benchmark uses the wall clock
    start = end - 7 * 86_400
    missing = 0
    for engine_id in plane.tokens:
        status, body = plane.get(f"/api/v1/engines/{engine_id}/gaps?start={start}&end={end}")
        if status != 200:
            raise RuntimeError(f"gaps of {engine_id}: the control plane answered {status}")
        missing += int(json.loads(body)["frames_missing"])
    return missing
