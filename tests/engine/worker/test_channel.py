import socket
import threading

import numpy as np
import pytest

from engine.worker.channel import ChannelClosedError, RankEnd, channel_pair
from engine.worker.messages import Answer, Ask, Beat, ReadBias, Stop


@pytest.fixture
def ends():
    engine, theirs = channel_pair()
    yield engine, RankEnd(theirs)
    engine.close()
    theirs.close()


def test_messages_arrive_whole_and_in_order(ends):
    engine, rank = ends
    engine.send(Ask(1, ReadBias()))
    engine.send(Stop())
    assert rank.receive() == Ask(1, ReadBias())
    assert rank.receive() == Stop()


def test_the_engine_reads_only_what_has_arrived(ends):
    engine, rank = ends
    assert engine.receive() == []
    rank.send(Beat())
    rank.send(Answer(1, value=3))
    assert engine.receive() == [Beat(), Answer(1, value=3)]


def test_a_message_larger_than_the_socket_buffer_never_blocks_the_engine(ends):
    engine, rank = ends
    big = Answer(1, value=np.arange(2_000_000))
    sender = threading.Thread(target=rank.send, args=(big,))
    sender.start()
    received: list = []
    while not received:
        received = engine.receive()
    sender.join()
    assert np.array_equal(received[0].value, big.value)


def test_what_a_stopped_rank_does_not_read_is_kept_until_it_does(ends):
    engine, rank = ends
    bias = np.zeros((1000, 1000), np.float32)
    engine.send(Ask(1, ReadBias()))
    engine.send(Answer(2, value=bias))  # any picklable value will do
    assert engine.has_unsent
    assert rank.receive() == Ask(1, ReadBias())
    reader = threading.Thread(target=rank.receive)
    reader.start()
    while engine.has_unsent:
        engine.flush()
    reader.join()


def test_both_ends_see_that_the_other_is_gone():
    engine, theirs = channel_pair()
    rank = RankEnd(theirs)
    rank.send(Beat())
    theirs.close()
    assert engine.receive() == [Beat()]
    with pytest.raises(ChannelClosedError):
        engine.receive()
    engine.close()

    engine, theirs = channel_pair()
    engine.close()
    with pytest.raises(ChannelClosedError):
        RankEnd(theirs).receive()
    with pytest.raises(ChannelClosedError):
        RankEnd(theirs).send(Beat())
    theirs.close()


def test_an_odd_split_of_bytes_does_not_tear_a_message():
    engine, theirs = channel_pair()
    ours, raw = socket.socketpair()
    rank = RankEnd(raw)
    rank.send(Answer(7, value="x" * 50))
    data = ours.recv(1000)
    found: list = []
    for byte in data:
        theirs.send(bytes([byte]))
        found = engine.receive()
    assert found == [Answer(7, value="x" * 50)]
    for sock in (ours, raw, theirs):
        sock.close()
    engine.close()
