"""Sorting the frames of a request: readable and the sender's own, or refused and why. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contract import CONTRACT_VERSION
from contract.frame import FrameHeader
from contract.frame_codec import FrameError
from controlplane.history.ring import ReceivedFrame
from controlplane.ingest.storable import unstorable

MALFORMED = "malformed"
FOREIGN = "foreign"
VERSION = "version"
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})")
_SHOWN = 40
EARLIEST, LATEST = 0.0, 4_102_444_800.0
"""Starts that a frame may have: 1970 to 2100, in unix seconds."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A frame that is not taken: one word for metrics, and a sentence for the sender."""

    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Sorted:
    """Frames to store, frames refused, and warnings about frames that are stored."""

    accepted: list[ReceivedFrame]
    refused: list[Refusal]
    warnings: list[str]

    @property
    def only_foreign(self) -> bool:
        """Whether every frame of the request belonged to another engine."""
        return not self.accepted and all(refusal.kind == FOREIGN for refusal in self.refused)


def sort_frames(
    bodies: Sequence[bytes], verified: Iterable[FrameHeader | FrameError], engine_id: str
) -> Sorted:
    """Sort the frames of one request, sent with `engine_id`'s token.

    `verified`: what `contract.frame_stack.verify` found of each.
    """
    result = Sorted([], [], [])
    for index, (data, header) in enumerate(zip(bodies, verified, strict=True)):
        if isinstance(header, FrameError):
            said = f"frame {index}: {header.kind}: {header}"
            result.refused.append(Refusal(MALFORMED, said))
            continue
        refusal = _refusal(header, engine_id)
        if refusal is not None:
            result.refused.append(Refusal(refusal.kind, f"frame {index}: {refusal.message}"))
            continue
        if header.contract_version != CONTRACT_VERSION and _is_newer(header):
            result.warnings.append(
                f"frame {index}: contract_version {header.contract_version} is newer than "
                f"{CONTRACT_VERSION}: stored, what this version does not know is not shown"
            )
        result.accepted.append(ReceivedFrame(header, data))
    return result


def _refusal(header: FrameHeader, engine_id: str) -> Refusal | None:
    if header.engine_id != engine_id:
        return Refusal(
            FOREIGN,
            f"engine_id is {header.engine_id!r}, this token is bound to {engine_id!r}",
        )
    if not EARLIEST <= header.started_unix_seconds < LATEST:
        return Refusal(
            MALFORMED,
            f"started_unix_seconds is {header.started_unix_seconds}, "
            f"allowed is {EARLIEST:.0f} to {LATEST:.0f}",
        )
    reason = unstorable(header)
    if reason:
        return Refusal(MALFORMED, reason)
    theirs = _version(header.contract_version)
    if theirs is None or theirs[0] != _OURS[0]:
        return Refusal(
            VERSION,
            f"contract_version {header.contract_version[:_SHOWN]!r} is not readable here; "
            f"this reads {_OURS[0]}.x",
        )
    return None


def _is_newer(header: FrameHeader) -> bool:
    theirs = _version(header.contract_version)
    return theirs is not None and theirs > _OURS


def _version(text: str) -> tuple[int, int] | None:
    parts = _VERSION.fullmatch(text)
    return None if parts is None else (int(parts[1]), int(parts[2]))


_OURS = _version(CONTRACT_VERSION) or (0, 0)
