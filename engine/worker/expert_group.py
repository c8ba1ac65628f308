"""How the ranks of one engine exchange rows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from socket import socket

from torch import distributed

from engine.parallel.distributed import DistributedGroup
from engine.parallel.groups import ExpertGroup, LocalGroup
from engine.parallel.socket_group import SocketGroup
from engine.worker.messages import RankSpec
from engine.worker.settings import keep_collectives_on_loopback

_COLLECTIVE_SECONDS = 300.0
"""A peer that is gone is seen by the engine within seconds; this only ends a rank nobody ends."""


@contextmanager
def joined(spec: RankSpec, peers: Sequence[socket | None]) -> Iterator[ExpertGroup]:
    """The group of this rank until the end of the block.

    Args:
        spec: which rank of which engine.
        peers: a socket to every other rank, None at its own place.
    """
    config = spec.config
    if config.ranks == 1:
        yield LocalGroup()
    elif config.device == "cpu" and config.collectives == "sockets":
        yield SocketGroup(spec.rank, peers)
    else:
        keep_collectives_on_loopback()
        distributed.init_process_group(
            "nccl" if config.device == "cuda" else "gloo",
            init_method=f"file://{spec.rendezvous}", rank=spec.rank, world_size=config.ranks,
            timeout=timedelta(seconds=_COLLECTIVE_SECONDS),
        )  # fmt: skip
        try:
            yield DistributedGroup()
        finally:
            distributed.destroy_process_group()
