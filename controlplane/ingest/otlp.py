"""OTLP/HTTP logs: frames out of an export request, and the answers that OTLP wants.

Protobuf and JSON on one path, the same type in the answer (opentelemetry-proto,
docs/specification.md). An error is a `google.rpc.Status`; a partial success must not be retried.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from contract.headers import CONTENT_TYPE_PROTOBUF, FRAME_EVENT_NAME
from controlplane.ingest.body import UndecodableBodyError, UnsupportedBodyError

CONTENT_TYPE_JSON = "application/json"
_GRPC_CODES = {400: 3, 401: 16, 403: 7, 413: 3, 415: 3, 422: 3, 429: 8, 503: 14}
_UNKNOWN = 2
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class LogBodies:
    """Frame bodies of a request, and how many other log records came with them."""

    frames: list[bytes]
    others: int


def media_type(header: str) -> str:
    """The media type of a Content-Type header.

    Raises:
        UnsupportedBodyError: neither protobuf nor JSON.
    """
    name = header.split(";", maxsplit=1)[0].strip().lower()
    if name not in (CONTENT_TYPE_PROTOBUF, CONTENT_TYPE_JSON):
        raise UnsupportedBodyError(
            f"content type {name!r} is not read here; use {CONTENT_TYPE_PROTOBUF} "
            f"or {CONTENT_TYPE_JSON}",
            field="Content-Type", value=name, bound=[CONTENT_TYPE_PROTOBUF, CONTENT_TYPE_JSON],
        )  # fmt: skip
    return name


def parse(body: bytes, content_type: str) -> LogBodies:
    """Take the `moe.frame` events out of an export request.

    Raises:
        UndecodableBodyError: the body is not an export request.
    """
    request = ExportLogsServiceRequest()
    try:
        if content_type == CONTENT_TYPE_JSON:
            json_format.Parse(body, request, ignore_unknown_fields=True)
            json.loads(body, object_hook=_check_base64)
        else:
            request.ParseFromString(body)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError) as error:
        raise UndecodableBodyError(f"the body is no OTLP logs request: {error}") from None
    frames: list[bytes] = []
    others = 0
    for resource in request.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                if record.event_name == FRAME_EVENT_NAME and record.body.HasField("bytes_value"):
                    frames.append(record.body.bytes_value)
                else:
                    others += 1
    return LogBodies(frames, others)


def _check_base64(value: dict[str, Any]) -> None:
    """Of one JSON object, all of them in turn: protobuf's parser skips what is no base64.

    Raises:
        UndecodableBodyError: a `bytesValue` has other characters.
    """
    for key in ("bytesValue", "bytes_value"):
        said = value.get(key)
        if isinstance(said, str) and not _BASE64.fullmatch(said):
            shown = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"
            raise UndecodableBodyError(
                f"a field {key} is not base64: {shown!r}", field=key, value=shown
            )


def success(content_type: str, *, rejected: int = 0, message: str = "") -> bytes:
    """The body of a 200: empty, a partial success, or (0 rejected, with a message) a warning."""
    answer = ExportLogsServiceResponse()
    if rejected or message:
        answer.partial_success.rejected_log_records = rejected
        answer.partial_success.error_message = message
    return _written(answer, content_type)


def failure(content_type: str, status: int, message: str) -> bytes:
    """The body of an error: a Status with the gRPC code that fits the HTTP status."""
    return _written(Status(code=_GRPC_CODES.get(status, _UNKNOWN), message=message), content_type)


def _written(message: Message, content_type: str) -> bytes:
    if content_type == CONTENT_TYPE_JSON:
        return str(json_format.MessageToJson(message, indent=None)).encode()
    return bytes(message.SerializeToString())
