"""The engine core on two real rank processes and a tiny checkpoint; one engine a file."""

import pytest_asyncio

from tests.support.engines import TinyEngine
from tests.support.tiny_checkpoint import write_tiny_checkpoint


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory):
    """Tests that take it run in its loop: `pytest.mark.asyncio(loop_scope="module")`."""
    checkpoint = write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")
    engine = TinyEngine(checkpoint, queue_limit=40, whatif_every=2)
    await engine.start()
    yield engine
    assert not engine.failed.done()
    await engine.stop()
