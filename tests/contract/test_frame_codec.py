import json
import struct
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import frame_codec
from contract.frame import ARRAYS, LAST_SEQUENCE, MAX_FRAME_BYTES, FrameHeader
from contract.frame_codec import (
    Frame,
    FrameError,
    decode_header,
    encode,
    payload_bytes,
    saturated,
    unfold,
)
from contract.frame_stack import verify
from contract.runtime_config import RuntimeConfig

PREFIX = struct.Struct("<4sBIII")


def header(**changed: Any) -> FrameHeader:
    body = {
        "contract_version": "1.0", "engine_id": "engine-0", "group": "group-0", "model": "tiny",
        "boot_id": "boot", "sequence": 3, "started_unix_seconds": 1_700_000_000.0,
        "interval_seconds": 1.0, "layers": 2, "experts": 4, "top_k": 2, "ranks": 2,
        "config_generation": 5, "config": RuntimeConfig(),
    }  # fmt: skip
    return FrameHeader.model_validate(body | changed)


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    head = header(
        layers=draw(st.integers(0, 4)), experts=draw(st.integers(1, 9)),
        ranks=draw(st.integers(1, 3)), generations=draw(st.lists(st.integers(-1, 9), max_size=5)),
        sequence=draw(st.integers(0, LAST_SEQUENCE)),
    )  # fmt: skip
    names = draw(st.sets(st.sampled_from(sorted(ARRAYS)), max_size=6))
    top = draw(st.sampled_from([0, 1, 255, 256, 70_000, 2**24, 2**32 - 1]))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    arrays = {
        name: random.integers(0, top, head.shape(ARRAYS[name]), dtype=np.uint32, endpoint=True)
        for name in names
    }
    return Frame(header=head, arrays=arrays)


def decode(data: bytes) -> Frame:
    """Decode; `verify`, which unpacks nothing, has to say the same."""
    (verified,) = verify([data])
    try:
        frame = frame_codec.decode(data)
    except FrameError as error:
        if (getattr(verified, "kind", None), str(verified)) != (error.kind, str(error)):
            pytest.fail(f"decode says {error}, verify {verified}")
        raise
    assert verified == frame.header
    return frame


@given(frames())
@settings(max_examples=60, deadline=None)
def test_a_frame_survives_the_wire(frame: Frame) -> None:
    packed = encode(frame)
    again = decode(packed)
    assert again.header == frame.header
    assert decode_header(packed) == frame.header
    assert again.arrays.keys() == frame.arrays.keys()
    for name, values in frame.arrays.items():
        assert np.array_equal(again.arrays[name], values), name


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_frame_or_a_frame_error(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


@given(frames(), st.data())
@settings(max_examples=80, deadline=None)
def test_a_damaged_frame_is_a_frame_error(frame: Frame, data: st.DataObject) -> None:
    packed = bytearray(encode(frame))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FrameError):
        decode(bytes(packed))


@given(frames(), st.data())
@settings(max_examples=40, deadline=None)
def test_a_cut_frame_is_a_frame_error(frame: Frame, data: st.DataObject) -> None:
    packed = encode(frame)
    with pytest.raises(FrameError):
        decode(packed[: data.draw(st.integers(0, len(packed) - 1))])


def sealed(body: object, payload: bytes = b"") -> bytes:
    """A frame with a right crc around any header and payload."""
    compressor = zstandard.ZstdCompressor()
    head = compressor.compress(json.dumps(body).encode())
    rest = compressor.compress(payload)
    crc = zlib.crc32(rest, zlib.crc32(head))
    return PREFIX.pack(b"MOEF", 1, len(head), len(rest), crc) + head + rest


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**33) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@given(JSON, st.binary(max_size=64))
@settings(max_examples=150, deadline=None)
def test_any_header_with_a_right_crc_is_a_frame_error(body: object, payload: bytes) -> None:
    with pytest.raises(FrameError):
        decode(sealed(body, payload))


@given(JSON, st.binary(max_size=64))
@settings(max_examples=150, deadline=None)
def test_any_array_list_with_a_right_crc_is_a_frame_or_a_frame_error(
    listed: object, payload: bytes
) -> None:
    body = header().model_dump(mode="json") | {"_arrays": listed}
    try:
        frame = decode(sealed(body, payload))
    except FrameError:
        return
    assert all(values.shape == frame.header.shape(ARRAYS[name])
               for name, values in frame.arrays.items())  # fmt: skip


def packed_with(arrays: list[list[object]], payload: bytes) -> bytes:
    return sealed(header().model_dump(mode="json") | {"_arrays": arrays}, payload)


def test_an_array_of_a_newer_minor_is_skipped() -> None:
    values = struct.pack("<Q", 7) + bytes([3, 4])
    frame = decode(packed_with([["from_the_future", 1, [2]]], values))
    assert frame.arrays == {}


def test_an_unknown_array_is_skipped_without_being_unpacked() -> None:
    rows = 100_000
    packed = packed_with([["from_the_future", 1, [rows, 1]]], b"\0" * (9 * rows))
    tracemalloc.start()
    assert decode(packed).arrays == {}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 9 * rows


@given(frames(), st.binary(max_size=40))
@settings(max_examples=40, deadline=None)
def test_what_a_frame_inflates_to_is_known_without_inflating_it(frame: Frame, other: bytes) -> None:
    assert payload_bytes(encode(frame)) == len(unfold(encode(frame))[2])
    assert payload_bytes(other) == 0


def test_a_topology_with_too_many_experts_is_refused_with_its_bound() -> None:
    wide = header().model_dump(mode="json") | {"layers": 512, "experts": 4096}
    with pytest.raises(FrameError, match=r"512 × 4096 is 2097152, the bound is 131072"):
        decode(sealed(wide | {"_arrays": []}))
    with pytest.raises(FrameError, match="the bound is 131072"):
        encode(Frame(header=FrameHeader.model_validate(wide)))


def test_unknown_header_fields_of_a_newer_minor_are_kept() -> None:
    body = header().model_dump(mode="json") | {"_arrays": [], "novel": 4}
    assert decode(sealed(body)).header.model_dump()["novel"] == 4


def test_wrong_row_totals_are_refused() -> None:
    values = struct.pack("<Q", 8) + bytes([3, 4])
    with pytest.raises(FrameError, match="row totals of overflow") as caught:
        decode(packed_with([["overflow", 1, [2]]], values))
    assert caught.value.kind == "checksum"


@pytest.mark.parametrize(
    ("arrays", "kind"),
    [
        ([["overflow", 1, [3]]], "shape"),
        ([["overflow", 2, [2]]], "size"),
        ([["overflow", 5, [2]]], "header"),
        ([["overflow", 1, [-1]]], "header"),
        ([["overflow", 1, []]], "header"),
        ([["overflow", True, [2]]], "header"),
        ([["overflow", 1, [1 << 30]]], "header"),
        ([["overflow", 4, [1 << 24, 1 << 24]]], "shape"),
        ([["from_the_future", 1, [1 << 24, 1]]], "too-large"),
        ([[f"future{i}", 1, [2]] for i in range(257)], "header"),
        ([["overflow", 1, [2]], ["overflow", 1, [2]]], "header"),
        ([], "too-large"),
    ],
)
def test_a_lying_array_list_is_refused_without_allocating(
    arrays: list[list[object]], kind: str
) -> None:
    with pytest.raises(FrameError) as caught:
        decode(packed_with(arrays, struct.pack("<Q", 7) + b"\x03"))
    assert caught.value.kind == kind


def test_a_bomb_is_refused_by_its_declared_size() -> None:
    bomb = zstandard.ZstdCompressor().compress(b"\0" * (130 * 1024 * 1024))
    head = zstandard.ZstdCompressor().compress(
        json.dumps(header().model_dump(mode="json") | {"_arrays": []}).encode()
    )
    crc = zlib.crc32(bomb, zlib.crc32(head))
    with pytest.raises(FrameError, match="inflates to") as caught:
        decode(PREFIX.pack(b"MOEF", 1, len(head), len(bomb), crc) + head + bomb)
    assert caught.value.kind == "too-large"


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("unheard_of", np.zeros(2, np.uint32), "array"),
        ("overflow", np.zeros(3, np.uint32), "shape"),
        ("overflow", np.array([-1, 0]), "range"),
        ("overflow", np.array([0, 2**32]), "range"),
    ],
)
def test_what_does_not_fit_is_not_encoded(name: str, values: Any, kind: str) -> None:
    with pytest.raises(FrameError) as caught:
        encode(Frame(header=header(), arrays={name: values}))
    assert caught.value.kind == kind


def test_an_oversized_body_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameError, match=str(MAX_FRAME_BYTES)) as caught:
        decode(b"MOEF" + b"\0" * MAX_FRAME_BYTES)
    assert caught.value.kind == "too-large"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("layers", -1),
        ("experts", 0),
        ("engine_id", ""),
        ("interval_seconds", 0),
        ("sequence", -1),
        ("sequence", 2**32),
        ("tokens", (-5, -7)),
        ("step_first", -1),
        ("step_last", -2),
        ("generations", (-2,)),
        ("generations", (1,) * 65),
        ("bias_version", -1),
        ("epoch_seen", -1),
        ("gauges", {"queued": -5}),
        ("requests", {"finished": -3}),
    ],
)
def test_a_header_field_out_of_bounds_is_named(field: str, value: object) -> None:
    body = header().model_dump(mode="json") | {"_arrays": [], field: value}
    with pytest.raises(FrameError, match=f"header field {field}") as caught:
        decode(sealed(body))
    assert caught.value.kind == "header"


def test_a_count_over_the_bound_is_cut_and_named() -> None:
    sent = np.array([2**32 + 5, 7], dtype=np.int64)
    packed, cut = saturated({"a2a_bytes": sent, "overflow": np.array([3, 4])})
    assert cut == ("a2a_bytes",)
    assert packed["a2a_bytes"].tolist() == [2**32 - 1, 7]
    assert packed["overflow"].tolist() == [3, 4]
    assert all(values.dtype == np.uint32 for values in packed.values())
