import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.parallel.socket_group import PeerGoneError, SocketGroup, connect

BEYOND_ANY_BUFFER = 1 << 18
"""Rows of 8 bytes that no socket takes at once."""


def on_every_rank(size, call):
    """`call(group)` on a thread for each rank; results by rank."""
    sockets = connect(size)
    with ThreadPoolExecutor(size) as pool:
        found = list(pool.map(call, [SocketGroup(r, peers) for r, peers in enumerate(sockets)]))
    for peer in (peer for peers in sockets for peer in peers if peer is not None):
        peer.close()
    return found


def rows_of(rank, count, width, dtype=torch.float32):
    values = torch.arange(count * width, dtype=torch.float64).view(count, width)
    return (values % 97 + 100 * rank).to(dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_counts_of_every_rank_reach_every_rank(size):
    seen = on_every_rank(size, lambda g: g.all_gather_counts(torch.arange(5) + 10 * g.rank))
    wanted = torch.stack([torch.arange(5) + 10 * rank for rank in range(size)])
    assert all(torch.equal(each, wanted) for each in seen)


@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=4), width=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_rows_are_gathered_in_rank_order(counts, width):
    seen = on_every_rank(
        len(counts), lambda g: g.all_gather_rows(rows_of(g.rank, counts[g.rank], width), counts)
    )
    wanted = torch.cat([rows_of(rank, n, width) for rank, n in enumerate(counts)])
    assert all(torch.equal(each, wanted) for each in seen)


@given(data=st.data(), size=st.integers(1, 4), width=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_every_run_of_rows_arrives_where_it_was_sent(data, size, width):
    sizes = st.lists(st.integers(0, 7), min_size=size, max_size=size)
    sends = data.draw(st.lists(sizes, min_size=size, max_size=size))

    def exchange(group):
        rows = rows_of(group.rank, sum(sends[group.rank]), width)
        return group.all_to_all(rows, sends[group.rank], [sent[group.rank] for sent in sends])

    def run(source, target):
        start = sum(sends[source][:target])
        rows = rows_of(source, sum(sends[source]), width)
        return rows[start : start + sends[source][target]]

    seen = on_every_rank(size, exchange)
    for rank, received in enumerate(seen):
        wanted = torch.cat([run(source, rank) for source in range(size)])
        assert torch.equal(received, wanted)


@pytest.mark.parametrize("size", [2, 3])
def test_messages_longer_than_every_buffer_do_not_lock_the_ranks(size):
    rows = BEYOND_ANY_BUFFER

    def exchange(group):
        mine = torch.full((rows * size, 1), group.rank, dtype=torch.int64)
        return group.all_to_all(mine, [rows] * size, [rows] * size)

    for received in on_every_rank(size, exchange):
        assert received.view(size, rows).float().mean(1).tolist() == list(range(size))


def test_one_long_and_one_empty_direction():
    send = {0: [0, BEYOND_ANY_BUFFER], 1: [0, 0]}
    receive = {0: [0, 0], 1: [BEYOND_ANY_BUFFER, 0]}
    seen = on_every_rank(
        2,
        lambda g: g.all_to_all(torch.ones(sum(send[g.rank]), 1), send[g.rank], receive[g.rank]),
    )
    assert [len(each) for each in seen] == [0, BEYOND_ANY_BUFFER]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.uint8, torch.float32])
def test_any_dtype_travels(dtype):
    seen = on_every_rank(
        2, lambda g: g.all_to_all(rows_of(g.rank, 4, 3, dtype), [1, 3], [[1, 1], [3, 3]][g.rank])
    )
    first, second = rows_of(0, 4, 3, dtype), rows_of(1, 4, 3, dtype)
    assert torch.equal(seen[0], torch.cat([first[:1], second[:1]]))
    assert torch.equal(seen[1], torch.cat([first[1:], second[1:]]))


def test_what_was_received_can_be_written_in_inference_mode():
    def exchange(group):
        with torch.inference_mode():
            return group.all_gather_counts(torch.ones(3, dtype=torch.int64)).add_(1)

    assert all(each.eq(2).all() for each in on_every_rank(2, exchange))


@pytest.mark.parametrize("is_waiting", [False, True], ids=["before", "while-waiting"])
def test_a_peer_that_ends_is_an_error_not_a_hang(is_waiting):
    (_, ours), (theirs, _) = connect(2)
    assert ours is not None
    assert theirs is not None
    group = SocketGroup(0, [None, ours])
    end = threading.Timer(0.05 if is_waiting else 0.0, theirs.close)
    end.start()
    if not is_waiting:
        end.join()
    with pytest.raises(PeerGoneError):
        group.all_gather_counts(torch.ones(2, dtype=torch.int64))
    end.join()
    ours.close()


def test_a_missing_socket_is_refused():
    with socket.socket() as only, pytest.raises(ValueError, match="sockets to \\[1\\] only"):
        SocketGroup(0, [None, only, None])
