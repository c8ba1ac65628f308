"""Prometheus' own test tool."""

import shutil
import subprocess

import pytest

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed"
)


def promtool(*arguments: str) -> tuple[int, str]:
    """Exit status and all that it said."""
    done = subprocess.run(["promtool", *arguments], check=False, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr
