"""What versions before December 2026 stored is read as it was written."""

from pathlib import Path

import numpy as np
import pytest

from contract.frame_codec import Frame
from controlplane.history import chunk_codec
from controlplane.history.chunk_codec import decode_chunk
from controlplane.history.pcodec_packing import unpack
from controlplane.history.summing import sum_frames
from controlplane.history.window_codec import decode_window
from tests.support.frames import START, make_frame

STORED = Path(__file__).parent / "stored"
ROLLUP = (STORED / "rollup_of_november_2026.bin").read_bytes()


def _frames() -> list[Frame]:
    """The frames that the files were made of."""
    rng = np.random.default_rng(7)
    shares = rng.gamma(3.0, 200.0, (2, 8, 40))
    made = []
    for i in range(12):
        frame = make_frame(
            i, fill=5, rng=rng, layers=8, experts=40, generations=(1,),
            arrays=["overflow", "step_time"],
        )  # fmt: skip
        more = {
            "assignments": rng.poisson(shares).astype(np.uint32),
            "executed": rng.poisson(640_000, 8).astype(np.uint32),
        }
        made.append(Frame(frame.header, {**frame.arrays, **more}))
    return made


@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("chunk_of_november_2026.bin", {"planes", "pco", "share"}),
        ("chunk_with_arrays_apart.bin", {"series", "residual"}),
    ],
)
def test_a_chunk_of_every_older_codec_is_read(name, codecs):
    chunk = (STORED / name).read_bytes()
    assert {entry["codec"] for entry in chunk_codec._open(chunk)[1]["arrays"]} == codecs
    for read, written in zip(decode_chunk(chunk).frames(), _frames(), strict=True):
        assert read.header == written.header
        assert read.arrays.keys() == written.arrays.keys()
        assert all(np.array_equal(read.arrays[n], written.arrays[n]) for n in written.arrays)


def test_a_rollup_with_every_array_alone_is_read():
    read, summed = decode_window(ROLLUP), sum_frames("e0", START, START + 12, _frames())
    assert summed is not None
    assert read.arrays.keys() == summed.arrays.keys()
    assert all(np.array_equal(read.arrays[n], summed.arrays[n]) for n in summed.arrays)
    assert read.by_generation.keys() == summed.by_generation.keys()
    assert set(decode_window(ROLLUP, only={"overflow"}).arrays) == {"overflow"}


def test_an_unknown_codec_is_named():
    with pytest.raises(ValueError, match="unknown codec 'x'"):
        unpack("x", b"", (1,))
