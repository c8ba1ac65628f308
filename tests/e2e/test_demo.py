"""The product's promise, as its user runs it: `trimtab demo`, whole processes, minutes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def _demo(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "trimtab", "demo", "--headless", "--keep", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - one system call, no locks
    )


def _heed_interrupts() -> None:
    """As in a terminal: what runs in the background of a script ignores SIGINT, and so would we."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _left_behind(folder: Path) -> list[str]:
    found = subprocess.run(
        ["pgrep", "-af", str(folder)], capture_output=True, text=True, check=False
    )
    return [line for line in found.stdout.splitlines() if "pgrep" not in line]


def test_the_loop_closes_on_a_wrong_sign_regulator(tmp_path: Path) -> None:
    report_file = tmp_path / "r.json"
    with _demo(tmp_path / "site", "--report", str(report_file)) as process:
        output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    report = json.loads(report_file.read_text())
    assert report["verdict"] == "recovered"
    assert report["action"]["knob"] == "router_bias"
    assert report["during"]["tau"] > 2 * report["before"]["tau"]
    assert report["frames"]["gaps"] == 0
    assert sum(report[phase]["errors"] for phase in ("before", "during", "after")) == 0
    assert _left_behind(tmp_path / "site") == []


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    with _demo(folder) as process:
        deadline = time.monotonic() + 120
        while len(_left_behind(folder)) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0, output
    assert "Traceback" not in output
    assert _left_behind(folder) == []


def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    with _demo(folder) as process:
        deadline = time.monotonic() + 120
        while len(_left_behind(folder)) < 3 and time.monotonic() < deadline:
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while _left_behind(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _left_behind(folder) == []
