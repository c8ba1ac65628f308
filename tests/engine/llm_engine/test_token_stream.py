import asyncio

import pytest

from engine.llm_engine.exchange import TokenEvent
from engine.llm_engine.token_stream import TokenStream


async def test_events_come_in_order_whether_the_reader_waits_or_not():
    stream = TokenStream()
    stream.put(TokenEvent(1))
    stream.put(TokenEvent(2))
    assert [await stream.get() for _ in range(2)] == [TokenEvent(1), TokenEvent(2)]
    reading = asyncio.create_task(stream.get())
    await asyncio.sleep(0)
    stream.put(TokenEvent(3))
    stream.put(TokenEvent(4))
    assert await reading == TokenEvent(3)
    assert await stream.get() == TokenEvent(4)


async def test_a_reader_that_went_away_loses_nothing():
    stream = TokenStream()
    reading = asyncio.create_task(stream.get())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    stream.put(TokenEvent(5))
    assert await stream.get() == TokenEvent(5)
