"""Child processes of a run: started in their own group, watched, and always stopped.

Each child gets PR_SET_PDEATHSIG, so that even `kill -9` of the parent leaves no process behind.
"""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_PR_SET_PDEATHSIG = 1
_LOG_LINES = 15


class ChildFailedError(Exception):
    """A child ended before it should; the message has the end of its log."""


def free_port() -> int:
    """A loopback TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class Child:
    """One running program and where its output goes."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """Raise ChildFailedError when the program has ended."""
        code = self.process.poll()
        if code is not None:
            tail = "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:])
            raise ChildFailedError(f"{self.name} ended with status {code}. Its last words:\n{tail}")

    def stop(self, timeout_s: float = 10.0) -> None:
        """SIGTERM to the group, then SIGKILL; returns when the program is gone."""
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self.process.wait(timeout_s)
        self._signal(signal.SIGKILL)  # what the program itself had started and left

    def kill(self) -> None:
        """SIGKILL to the program alone, as a crash would."""
        self.process.kill()
        self.process.wait(10)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


class Children:
    """A context in which programs run; leaving it stops all of them, newest first."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        """Make the folder of the logs."""
        self._log_dir.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything, whatever happened."""
        for child in reversed(self._children):
            child.stop()

    def start_trimtab(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Child:
        """Run `trimtab <arguments>` with this interpreter; its output goes to `<name>.log`."""
        return self.start(name, [sys.executable, "-m", "trimtab", *arguments], environment)

    def start(
        self, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> Child:
        """Run any program; its output goes to `<name>.log`."""
        log = self._log_dir / f"{name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},  # noqa: TID251 - a child's inheritance
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one prctl, no locks
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raise ChildFailedError when any program has ended."""
        for child in self._children:
            child.check()

    def forget(self, child: Child) -> None:
        """Stop watching a program that was ended on purpose."""
        self._children.remove(child)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
