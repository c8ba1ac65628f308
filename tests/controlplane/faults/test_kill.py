"""kill -9 at any moment: no acknowledged frame is lost, none is stored twice, no half chunk."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import httpx
import pytest
from sqlalchemy import func, select

from controlplane.clock import ManualClock
from controlplane.db.database import open_database
from controlplane.history import inspection
from controlplane.history.history import History
from controlplane.history.models import LoadChunk, LoadRing, LoadRollup
from controlplane.settings import HistorySettings
from tests.support.frames import START, export_body, make_frame

TOKEN = "tt_engine-zero-secret"
ROOT = Path(__file__).parents[3]
KILLS = 2


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(url: str, port: int) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.plane_process", url, str(port), TOKEN],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _post(client: httpx.Client, port: int, sequence: int) -> bool:
    """Send two frames, the first of them again; whether they were acknowledged."""
    body = export_body(*(make_frame(s) for s in (max(0, sequence - 1), sequence)))
    try:
        response = client.post(
            f"http://127.0.0.1:{port}/v1/logs", content=body,
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-protobuf"},
        )  # fmt: skip
    except httpx.TransportError:
        return False
    return response.status_code == 200


@pytest.mark.e2e
def test_a_killed_control_plane_loses_no_acknowledged_frame(database_url):
    chance = random.Random(11)
    acknowledged: set[int] = set()
    sequence = 0
    port = _free_port()
    for _ in range(KILLS):
        process = _start(database_url, port)
        killer = threading.Timer(chance.uniform(0.2, 0.8), process.send_signal, [signal.SIGKILL])
        killer.start()
        with httpx.Client() as client:
            while _post(client, port, sequence):
                acknowledged.add(sequence)
                sequence += 1
        process.wait()
        killer.join()
        assert process.stdout is not None
        process.stdout.close()
    assert len(acknowledged) > KILLS

    database = open_database(database_url)
    history = History(database, HistorySettings(ring_frames=120), ManualClock(START))
    frames = history.frames("e0", START, START + 1e6)
    stored = Counter(frame.header.sequence for frame in frames)
    assert acknowledged <= set(stored)
    assert set(stored.values()) == {1}
    with database.read() as session:
        assert list(inspection.damaged(session)) == []
        # Every sealed frame is in exactly one chunk, and its minute's sums count it.
        in_chunks = session.scalar(select(func.sum(LoadChunk.frames))) or 0
        unsealed = session.scalar(
            select(func.count()).select_from(LoadRing).where(LoadRing.sealed.is_(False))
        )
        assert int(in_chunks) + int(unsealed or 0) == len(stored)
        for tier in (10, 60):
            total = session.scalar(
                select(func.sum(LoadRollup.frames)).where(LoadRollup.tier == tier)
            )
            assert int(total or 0) == int(in_chunks)
    database.close()
