"""Frames as OTLP log events `moe.frame` (OTLP/HTTP protobuf): standard on the wire, opaque inside.

Source: OpenTelemetry log data model; the event's body is the packed frame as bytes.
"""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from contract.headers import CONTENT_TYPE_PROTOBUF, FRAME_EVENT_NAME

Encoding = Literal["zstd", "gzip", "identity"]
_SEVERITY_INFO = 9


@dataclass(frozen=True, slots=True)
class PackedFrame:
    """One encoded frame that waits to be sent.

    Attributes:
        sequence: of its boot; body: `contract.frame_codec.encode`.
        unix_nanoseconds: start of its interval.
    """

    sequence: int
    body: bytes
    unix_nanoseconds: int


def export_request(
    frames: Sequence[PackedFrame], *, engine_id: str, boot_id: str
) -> ExportLogsServiceRequest:
    """One request of a batch of frames, oldest first."""
    request = ExportLogsServiceRequest()
    resource_logs = request.resource_logs.add()
    for key, value in (
        ("service.name", "trimtab-engine"),
        ("service.instance.id", engine_id),
        ("trimtab.boot.id", boot_id),
    ):
        attribute = resource_logs.resource.attributes.add(key=key)
        attribute.value.string_value = value
    scope_logs = resource_logs.scope_logs.add()
    scope_logs.scope.name = "trimtab.telemetry"
    for frame in frames:
        record = scope_logs.log_records.add(
            time_unix_nano=frame.unix_nanoseconds,
            observed_time_unix_nano=frame.unix_nanoseconds,
            severity_number=_SEVERITY_INFO,
            event_name=FRAME_EVENT_NAME,
        )
        record.body.bytes_value = frame.body
    return request


def compress(body: bytes, encoding: Encoding) -> tuple[bytes, dict[str, str]]:
    """The body as sent, and its headers."""
    headers = {"Content-Type": CONTENT_TYPE_PROTOBUF}
    if encoding == "identity":
        return body, headers
    headers["Content-Encoding"] = encoding
    if encoding == "gzip":
        return gzip.compress(body, compresslevel=1, mtime=0), headers
    return zstandard.ZstdCompressor(level=1).compress(body), headers
