"""Streams with a block of its own for each part: ordinary zstd, whatever the parts are."""

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from contract.zstd_blocks import OWN_BLOCK_BYTES, compress, compress_parts, decompress

LARGEST_PART = 2 * OWN_BLOCK_BYTES
MOST_PARTS = 6


@given(st.lists(st.binary(max_size=LARGEST_PART), max_size=MOST_PARTS))
def test_parts_come_back_as_one_and_the_stream_declares_their_size(parts):
    whole = b"".join(parts)
    packed = compress_parts([memoryview(part) for part in parts])
    assert zstandard.frame_content_size(packed) == len(whole)
    assert decompress(packed, LARGEST_PART * MOST_PARTS) == whole


@given(st.binary(max_size=LARGEST_PART))
def test_text_comes_back(text):
    assert decompress(compress(text), LARGEST_PART) == text


def test_a_stream_over_its_bound_is_refused():
    packed = compress_parts([bytes(LARGEST_PART)])
    with pytest.raises(zstandard.ZstdError):
        decompress(packed, LARGEST_PART - 1)
