"""What an engine's log says of its telemetry: each change once, however long it lasts."""

import logging

from engine.telemetry.answers import Verdict

log = logging.getLogger(__name__)

AWAY = "away"
SAID_AT = 2
"""Failed attempts in a row: one alone is a connection closed as it was used, or a busy moment."""

_KEPT = {
    AWAY: "does not answer",
    Verdict.BUSY: "cannot take frames now",
    Verdict.UNTRUSTED: "does not accept its token; give it a telemetry token that the control "
    "plane knows for this engine",
    Verdict.MISDIRECTED: "takes no frames; is telemetry_url its address?",
}


class DeliveryLog:
    """Of one engine towards one control plane."""

    def __init__(self, engine_id: str, url: str) -> None:
        self._engine_id = engine_id
        self._url = url
        self._said = ""

    def kept(self, why: str, words: str, *, attempts: int, waiting: int, most: int) -> None:
        """The latest of `attempts` in a row failed; `waiting` of at most `most` frames are kept."""
        if attempts < SAID_AT or self._said == why:
            return
        self._said = why
        log.warning(
            "engine %s: telemetry is buffered (%d frames wait, at most %d are kept): "
            "the control plane at %s %s (%s)",
            self._engine_id, waiting, most, self._url, _KEPT[why], words,
        )  # fmt: skip

    def lost(self, words: str, frames: int) -> None:
        """Frames that will never be accepted were dropped."""
        if self._said == Verdict.REFUSED:
            return
        self._said = Verdict.REFUSED
        log.error(
            "engine %s: %d frames were dropped: the control plane at %s refused them (%s)",
            self._engine_id, frames, self._url, words,
        )  # fmt: skip

    def flows(self, dropped: int) -> None:
        """Frames were taken; `dropped` of this boot have been lost so far."""
        if not self._said:
            return
        self._said = ""
        log.warning(
            "engine %s: telemetry flows again; %d frames of this boot were lost",
            self._engine_id, dropped,
        )  # fmt: skip

    def ended(self, undelivered: int, seconds: float) -> None:
        """The engine stops, and what was not delivered goes with it."""
        if undelivered:
            log.warning(
                "engine %s stops with %d frames undelivered, which are lost: the control plane at "
                "%s did not take them within %g s",
                self._engine_id, undelivered, self._url, seconds,
            )  # fmt: skip
