"""The rank processes of one engine: started, spoken to, listened to, and always ended.

One thread uses an object of this class. The engine's process is no member of the ranks' process
group and joins no collective, so nothing that a rank does can make it wait.
"""

import contextlib
import multiprocessing
import os
import selectors
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from engine.config import EngineConfig
from engine.errors import CheckpointError, NotReadyError, RankFailedError
from engine.llm_engine.liveness import Liveness
from engine.parallel.socket_group import connect
from engine.worker.channel import ChannelClosedError, EngineEnd, channel_pair
from engine.worker.messages import (
    Beat,
    Crashed,
    FromRank,
    RankFacts,
    RankSpec,
    Ready,
    Stop,
    ToRank,
)
from engine.worker.process import run_rank

_START_SECONDS = 120.0
_STOP_SECONDS = 5.0
_WAKE = -1


class RankGroup:
    """M rank processes and their channels.

    Args:
        config: every rank gets it.
        liveness: told of every message; `wait` raises what it finds.
    """

    def __init__(self, config: EngineConfig, liveness: Liveness) -> None:
        self._config = config
        self.liveness = liveness
        self.step_clock = True
        self._processes: list[BaseProcess] = []
        self._ends: list[EngineEnd] = []
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._selector.register(self._woken, selectors.EVENT_READ, _WAKE)
        self._waking = threading.Lock()
        self._is_closed = False
        self._is_cancelled = False
        self._folder = Path(tempfile.mkdtemp(prefix="trimtab-ranks-"))

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Process id by rank."""
        return tuple(process.pid or 0 for process in self._processes)

    def start(self) -> RankFacts:
        """Start every rank and wait until all have loaded.

        Raises:
            RankFailedError: a rank died or did not load in time.
            CheckpointError: the checkpoint cannot be served.
            NotReadyError: `cancel_start` was called.
        """
        context = multiprocessing.get_context("spawn")
        sockets = connect(self._config.ranks)
        for rank, peers in enumerate(sockets):
            end, theirs = channel_pair()
            spec = RankSpec(rank, self._config, str(self._folder / "rendezvous"))
            process = context.Process(
                target=run_rank,
                args=(spec, theirs, peers),
                name=f"trimtab-rank-{rank}",
                daemon=True,
            )
            process.start()
            for sent in (theirs, *peers):
                if sent is not None:
                    sent.close()
            self._processes.append(process)
            self._ends.append(end)
            self._selector.register(end, selectors.EVENT_READ, rank)
        return self._await_ready()

    def send(self, rank: int, message: ToRank) -> None:
        """Hand a message to a rank; never waits for it.

        Raises:
            RankFailedError: the rank is gone.
        """
        end = self._ends[rank]
        try:
            end.send(message)
        except ChannelClosedError:
            raise self._died(rank) from None
        self._watch_writes(rank)

    def broadcast(self, message: ToRank) -> None:
        """Hand the same message to every rank."""
        for rank in range(len(self._ends)):
            self.send(rank, message)

    def wait(self, seconds: float) -> Iterator[tuple[int, FromRank]]:
        """What ranks say within `seconds`, or sooner when woken; beats are kept back.

        Raises:
            RankFailedError: a rank is gone, crashed, or has been silent too long.
        """
        now = time.monotonic()
        timeout = min(seconds, self.liveness.seconds_left(now) + 0.001)
        for key, events in self._selector.select(max(0.0, timeout)):
            rank = cast("int", key.data)
            if rank == _WAKE:
                os.read(self._woken, 4096)
                continue
            if events & selectors.EVENT_WRITE:
                self._flush(rank)
            if events & selectors.EVENT_READ:
                yield from self._messages(rank)
        failure = self.liveness.failure(time.monotonic(), step_clock=self.step_clock)
        if failure is not None:
            raise RankFailedError(failure[1], rank=failure[0])

    def wake(self) -> None:
        """Make a `wait` of the other thread return; safe from any thread."""
        with self._waking, contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            if not self._is_closed:
                os.write(self._wake, b"w")

    def cancel_start(self) -> None:
        """Make a `start` of the other thread give up; safe from any thread."""
        self._is_cancelled = True
        self.wake()

    def check_cancelled(self) -> None:
        """Raise NotReadyError when `cancel_start` was called."""
        if self._is_cancelled:
            raise NotReadyError("the engine was stopped while it started")

    def stop(self) -> None:
        """Ask every rank to end, then end those that do not."""
        for end in self._ends:
            try:
                end.send(Stop())
            except ChannelClosedError:
                continue
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """End every rank now, stopped ones too, and free what the group holds."""
        for process in self._processes:
            if process.is_alive():
                process.kill()
        for process in self._processes:
            process.join()
            process.close()
        for end in self._ends:
            self._selector.unregister(end)
            end.close()
        self._processes.clear()
        self._ends.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Free the descriptors of a group that was stopped or killed."""
        with self._waking:
            self._is_closed = True
            self._selector.close()
            os.close(self._woken)
            os.close(self._wake)

    def _await_ready(self) -> RankFacts:
        deadline = time.monotonic() + _START_SECONDS
        facts: dict[int, RankFacts] = {}
        while len(facts) < self._config.ranks:
            self.check_cancelled()
            left = deadline - time.monotonic()
            if left <= 0:
                rank = min(set(range(self._config.ranks)) - set(facts))
                raise RankFailedError(
                    f"rank {rank} has not loaded within {_START_SECONDS:.0f} s", rank=rank
                )
            for rank, message in self.wait(left):
                if isinstance(message, Ready):
                    facts[rank] = message.facts
        return facts[0]

    def _messages(self, rank: int) -> Iterator[tuple[int, FromRank]]:
        try:
            messages = self._ends[rank].receive()
        except ChannelClosedError:
            raise self._died(rank) from None
        self.liveness.heard(rank, time.monotonic())
        for message in messages:
            if isinstance(message, Crashed):
                raise _crash(rank, message)
            if not isinstance(message, Beat):
                yield rank, message

    def _flush(self, rank: int) -> None:
        try:
            self._ends[rank].flush()
        except ChannelClosedError:
            raise self._died(rank) from None
        self._watch_writes(rank)

    def _watch_writes(self, rank: int) -> None:
        end = self._ends[rank]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if end.has_unsent else 0)
        if self._selector.get_key(end).events != wanted:
            self._selector.modify(end, wanted, rank)

    def _died(self, rank: int) -> RankFailedError:
        process = self._processes[rank]
        process.join(1.0)
        code = process.exitcode
        how = "closed its channel" if code is None else f"exited with code {code}"
        if code is not None and code < 0:
            how = f"was killed by signal {-code}"
        return RankFailedError(f"rank {rank} {how}", rank=rank)


def _crash(rank: int, message: Crashed) -> CheckpointError | RankFailedError:
    if message.checkpoint:
        return CheckpointError(message.detail)
    return RankFailedError(f"rank {rank} crashed: {message.detail}", rank=rank)
