"""64 engines at one frame a second, from a process of its own: senders must not slow a measurement.

`Stream` starts it; `python -m trimtab.bench.stream` reads its orders as JSON and tells how it went.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

from trimtab.bench.plane import FrameMaker, RunningPlane, Sender, in_threads

VARIANTS = 61
"""Seconds of counts before they repeat: more than a minute, so that no chunk holds one twice."""
MAX_LATE = 0.05
"""Share of posts that may be over a second late before a figure of the load is refused."""


@dataclass(slots=True)
class Sent:
    """How the load was held for so many seconds, and the senders' own processor time in them."""

    seconds: int
    posts: int = 0
    late: int = 0
    cpu_seconds: float = 0.0


class Stream:
    """A context in which the fleet sends; `finish` waits for its end and says how it went."""

    def __init__(self, plane: RunningPlane, seconds: int) -> None:
        self._orders = {"port": plane.port, "tokens": plane.tokens, "seconds": seconds}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start sending."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trimtab.bench.stream"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(self._orders))
            self._process.stdin.close()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop sending, whatever happened."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def finish(self) -> Sent:
        """Wait until all is sent.

        Raises:
            RuntimeError: a post failed.
        """
        if self._process is None or self._process.stdout is None:
            raise RuntimeError("the stream was not started")
        said = self._process.stdout.read()
        if self._process.wait() != 0:
            raise RuntimeError("the fleet's senders failed: no figure")
        return Sent(**json.loads(said))


def require_on_time(sent: Sent) -> Sent:
    """A figure of a load counts only if the load was held.

    Raises:
        RuntimeError: more than 5 % of the posts were late.
    """
    if sent.late > MAX_LATE * sent.posts:
        raise RuntimeError(
            f"{sent.late} of {sent.posts} posts were over 1 s late: this machine is too busy "
            "to hold the load that the figure is of, so there is no figure"
        )
    return sent


def send_fleet(plane: RunningPlane, maker: FrameMaker, seconds: int) -> Sent:
    """Post one frame an engine and second, spread over the second."""
    sent = Sent(seconds)
    start = time.time()  # noqa: TID251 - a benchmark uses the wall clock
    began = time.perf_counter() + 1
    lock = threading.Lock()
    names = sorted(plane.tokens)

    def send(engines: Sequence[str]) -> None:
        (engine,) = engines
        sender = Sender(plane)
        for second in range(seconds):
            behind = wait_until(began + second + names.index(engine) / len(names))
            status = sender.post(engine, maker.request(engine, second, 1, start))
            if status != 200:
                raise RuntimeError(f"the control plane answered {status} to {engine}")
            with lock:
                sent.posts += 1
                sent.late += behind > 1
        sender.close()

    in_threads([[name] for name in names], send)
    sent.cpu_seconds = time.process_time()
    return sent


def wait_until(due: float) -> float:
    """Wait for a moment of `time.perf_counter`; gives how far behind it this was called."""
    behind = time.perf_counter() - due
    if behind < 0:
        threading.Event().wait(-behind)
    return max(behind, 0.0)


def _main() -> None:
    orders = json.load(sys.stdin)
    plane = RunningPlane(orders["port"], 0, orders["tokens"])
    sent = send_fleet(plane, FrameMaker(VARIANTS, phases=(1,)), orders["seconds"])
    sys.stdout.write(json.dumps(asdict(sent)))


if __name__ == "__main__":
    _main()
