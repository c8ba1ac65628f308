"""Sorting the frames of a request: readable and the sender's own, or refused and why. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from contract import CONTRACT_VERSION
from contract.frame_codec import FrameError, decode
from controlplane.history.ring import ReceivedFrame

MALFORMED = "malformed"
FOREIGN = "foreign"
VERSION = "version"


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


def sort_frames(bodies: Sequence[bytes], engine_id: str) -> Sorted:
    """Decode and check the frames of one request, sent with `engine_id`'s token."""
    result = Sorted([], [], [])
    for index, data in enumerate(bodies):
        try:
            frame = decode(data)
        except FrameError as error:
            result.refused.append(Refusal(MALFORMED, f"frame {index}: {error.kind}: {error}"))
            continue
        header = frame.header
        if header.engine_id != engine_id:
            said = (
                f"frame {index}: engine_id is {header.engine_id!r}, "
                f"this token is bound to {engine_id!r}"
            )
            result.refused.append(Refusal(FOREIGN, said))
            continue
        theirs, ours = _version(header.contract_version), _version(CONTRACT_VERSION)
        if theirs is None or ours is None or theirs[0] != ours[0]:
            said = (
                f"frame {index}: contract_version {header.contract_version!r} "
                f"is not readable here; this reads {CONTRACT_VERSION.split('.', maxsplit=1)[0]}.x"
            )
            result.refused.append(Refusal(VERSION, said))
            continue
        if theirs > ours:
            result.warnings.append(
                f"frame {index}: contract_version {header.contract_version} is newer than "
                f"{CONTRACT_VERSION}: stored, what this version does not know is not shown"
            )
        result.accepted.append(ReceivedFrame(frame, data))
    return result


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
