"""Whether the engine takes requests, and if not, why."""

import asyncio
from dataclasses import dataclass


@dataclass(slots=True)
class Readiness:
    """`reason` is None while ready; a failure of a rank stays the reason for good."""

    reason: str | None = "starting"
    failure: BaseException | None = None

    def ready(self) -> None:
        """Take requests, unless a rank has failed."""
        if self.failure is None:
            self.reason = None

    def stopping(self) -> None:
        """Take no more requests."""
        if self.failure is None:
            self.reason = "stopping"

    def watch(self, failed: "asyncio.Future[BaseException]") -> None:
        """Turn unready the moment a rank fails."""
        failed.add_done_callback(self._fail)

    def _fail(self, failed: "asyncio.Future[BaseException]") -> None:
        if not failed.cancelled():
            self.failure = failed.exception() or failed.result()
            self.reason = str(self.failure)
