"""Recent frames in memory: bounded in bytes, the oldest go first."""

from controlplane.history.cache import HEADER_BYTES, FrameCache, key_of
from tests.support.frames import make_frame, received

FRAMES = [received(make_frame(i)) for i in range(4)]
SIZE = HEADER_BYTES + max(len(frame.data) for frame in FRAMES)


def test_a_frame_is_held_as_it_came():
    cache = FrameCache(10 * SIZE)
    cache.put(FRAMES[0])
    assert cache.get(key_of(FRAMES[0].header)) is FRAMES[0]
    assert cache.get(key_of(FRAMES[1].header)) is None


def test_the_oldest_goes_when_the_bound_is_reached():
    cache = FrameCache(2 * SIZE)
    for frame in FRAMES:
        cache.put(frame)
    assert [cache.get(key_of(frame.header)) is not None for frame in FRAMES] == [
        False, False, True, True,
    ]  # fmt: skip
    assert cache.held_bytes <= 2 * SIZE


def test_a_frame_that_comes_twice_counts_once():
    cache = FrameCache(10 * SIZE)
    for _ in range(3):
        cache.put(FRAMES[0])
    assert cache.held_bytes == HEADER_BYTES + len(FRAMES[0].data)


def test_without_room_nothing_is_held():
    cache = FrameCache(0)
    cache.put(FRAMES[0])
    assert cache.held_bytes == 0
