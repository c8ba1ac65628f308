"""Frames for tests: a small engine, one second a frame, counts that are easy to predict."""

import gzip
from collections.abc import Sequence

import numpy as np
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from contract import CONTRACT_VERSION
from contract.frame import ARRAYS, FrameHeader
from contract.frame_codec import Frame, encode
from contract.headers import FRAME_EVENT_NAME
from contract.runtime_config import RuntimeConfig
from controlplane.history.ring import ReceivedFrame

START = 1_700_000_040.0
"""A whole minute, in unix seconds."""


def make_frame(
    sequence: int = 0,
    *,
    engine_id: str = "e0",
    boot_id: str = "boot-a",
    started: float | None = None,
    layers: int = 2,
    experts: int = 4,
    ranks: int = 2,
    fill: int = 1,
    arrays: Sequence[str] = ("assignments", "overflow", "executed", "ttft", "a2a_layer"),
    rng: np.random.Generator | None = None,
    **header,
) -> Frame:
    """A frame whose every count is `fill`, or is drawn from `rng` (Poisson of `fill`)."""
    fields = {
        "contract_version": CONTRACT_VERSION, "engine_id": engine_id, "group": "g0",
        "model": "tiny", "boot_id": boot_id, "sequence": sequence,
        "started_unix_seconds": START + sequence if started is None else started,
        "interval_seconds": 1.0, "layers": layers, "experts": experts, "top_k": 2,
        "ranks": ranks, "steps": 3, "tokens": (5, 7), "sequences": 2, "generations": (1, 0),
        "config_generation": 1, "config": RuntimeConfig(), **header,
    }  # fmt: skip
    made = FrameHeader.model_validate(fields)
    counts = {}
    for name in arrays:
        shape = made.shape(ARRAYS[name])
        values = np.full(shape, fill) if rng is None else rng.poisson(fill, shape)
        counts[name] = values.astype(np.uint32)
    return Frame(made, counts)


def received(frame: Frame) -> ReceivedFrame:
    return ReceivedFrame(frame.header, encode(frame))


def export_request(bodies: Sequence[bytes]) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for body in bodies:
        record = scope.log_records.add(event_name=FRAME_EVENT_NAME)
        record.body.bytes_value = body
    return request


def export_body(*frames: Frame) -> bytes:
    """The protobuf body that an engine would post."""
    return export_request([encode(frame) for frame in frames]).SerializeToString()


def gzipped(*frames: Frame) -> bytes:
    return gzip.compress(export_body(*frames))
