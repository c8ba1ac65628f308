"""A header's list of arrays is found wherever it stands, and nothing else is taken for it."""

import json
import struct

import pytest
import zstandard

from contract.frame_arrays import FrameError, Listed
from contract.frame_codec import encode
from contract.frame_header import parse_header
from tests.support.frames import make_frame

PREFIX = struct.Struct("<4sBIII")
LIST = [["overflow", 1, [2]], ["executed", 2, [2, 3]]]
LISTED = (Listed("overflow", 1, (2,)), Listed("executed", 2, (2, 3)))
HEADER = make_frame(model='a",  "_arrays":[ of quotes').header


def _text(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _fields() -> dict:
    return HEADER.model_dump(mode="json")


def test_the_list_is_read_when_it_stands_last():
    header, listing = parse_header(_text(_fields() | {"_arrays": LIST}))
    assert header == HEADER
    assert listing.entries == LISTED


def test_one_list_is_worked_out_once():
    text = _text(_fields() | {"_arrays": LIST})
    assert parse_header(text)[1] is parse_header(text)[1]


def test_the_list_is_read_wherever_it_stands():
    for body in ({"_arrays": LIST, **_fields()}, {**_fields(), "_arrays": LIST, "novel": 4}):
        header, listing = parse_header(_text(body))
        assert header.engine_id == HEADER.engine_id
        assert listing.entries == LISTED
        assert "_arrays" not in header.model_dump()


def test_spaces_make_no_difference():
    header, listing = parse_header(json.dumps(_fields() | {"_arrays": LIST}, indent=1).encode())
    assert (header, listing.entries) == (HEADER, LISTED)


def test_a_list_inside_another_field_is_none_of_the_frames():
    inner = {"x": 1, "_arrays": [["bogus", 1, [9]]]}
    header, listing = parse_header(_text(_fields() | {"_arrays": LIST, "novel": inner}))
    assert listing.entries == LISTED
    assert header.model_dump()["novel"] == inner
    with pytest.raises(FrameError, match="_arrays"):
        parse_header(_text(_fields() | {"novel": inner}))


def test_of_two_lists_the_last_counts():
    text = _text({"_arrays": [["bogus", 1, [9]]], **_fields(), "later": 1})
    header, listing = parse_header(text.replace(b',"later":1', b',"_arrays":' + _text(LIST)))
    assert listing.entries == LISTED
    assert "_arrays" not in header.model_dump()


@pytest.mark.parametrize("bad", [None, 3, [["overflow", True, [2]]], [["overflow"]], "[]"])
def test_what_is_no_list_is_named(bad):
    with pytest.raises(FrameError, match="header field _arrays"):
        parse_header(_text(_fields() | {"_arrays": bad}))


def test_a_header_without_its_end_is_a_frame_error():
    whole = _text(_fields() | {"_arrays": LIST})
    for text in (whole[:-1], whole + b"}", whole[:-2] + b"}", b"", b',"_arrays":[]}'):
        with pytest.raises(FrameError):
            parse_header(text)


def test_an_encoder_writes_the_list_last_and_without_spaces():
    packed = encode(make_frame(arrays=("overflow",)))
    _, _, size, _, _ = PREFIX.unpack_from(packed)
    text = zstandard.decompress(packed[PREFIX.size : PREFIX.size + size])
    assert list(json.loads(text))[-1] == "_arrays"
    assert b',"_arrays":[[' in text


@pytest.mark.parametrize(
    "said",
    [{"gate_mass_total": 1e308}, {"gate_mass_kept": -1e300}, {"histogram_sums": {"ttft": 1e200}},
     {"required_capacity_factor": 1e19}, {"bias_distance": 1e300}, {"probe_nll": -1e19}],
    ids=lambda said: next(iter(said)),
)  # fmt: skip
def test_what_is_summed_over_frames_is_bounded_so_that_the_sum_is_a_number(said):
    with pytest.raises(FrameError, match=next(iter(said))):
        parse_header(_text({**_fields(), **said, "_arrays": LIST}))
