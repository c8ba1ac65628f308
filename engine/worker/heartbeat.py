"""A rank's sign of life, from a thread of its own."""

import os
import threading

from engine.worker.channel import ChannelClosedError, RankEnd
from engine.worker.messages import Beat

BEAT_SECONDS = 0.5


class Heartbeat:
    """Beats until stopped, and ends the process when the engine is gone.

    The main thread may then be waiting in a collective that will never complete.
    """

    def __init__(self, channel: RankEnd) -> None:
        self._channel = channel
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """No beat after this returns."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._channel.send(Beat())
            while not self._stopping.wait(BEAT_SECONDS):
                self._channel.send(Beat())
        except ChannelClosedError:
            if not self._stopping.is_set():
                os._exit(1)
