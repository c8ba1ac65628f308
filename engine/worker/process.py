"""The life of one rank process: join the peers, load, serve messages, leave."""

import signal
import socket
import traceback
from datetime import timedelta

import torch
from torch import distributed

from engine.errors import CheckpointError
from engine.worker.channel import ChannelClosedError, RankEnd
from engine.worker.heartbeat import Heartbeat
from engine.worker.messages import Crashed, RankSpec, Ready, Stop
from engine.worker.rank import Rank
from engine.worker.settings import die_with_parent, keep_collectives_on_loopback

_COLLECTIVE_SECONDS = 300.0
"""A peer that is gone is seen by the engine within seconds; this only ends a rank nobody ends."""


def run_rank(spec: RankSpec, sock: socket.socket) -> None:
    """Entry point of the process; returns when the engine says stop or is gone."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the engine, which stops its ranks
    channel = RankEnd(sock)
    heartbeat = Heartbeat(channel)
    heartbeat.start()
    try:
        _serve(spec, channel)
    except ChannelClosedError:
        return
    except Exception as error:  # noqa: BLE001 - the engine must hear why, whatever it was
        detail = str(error) or type(error).__name__
        if not isinstance(error, CheckpointError):
            detail = f"{type(error).__name__}: {detail}\n{traceback.format_exc()}"
        channel.send(Crashed(detail, checkpoint=isinstance(error, CheckpointError)))
        raise SystemExit(1) from None
    finally:
        heartbeat.stop()


def _serve(spec: RankSpec, channel: RankEnd) -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    keep_collectives_on_loopback()
    distributed.init_process_group(
        "nccl" if spec.config.device == "cuda" else "gloo",
        init_method=f"file://{spec.rendezvous}", rank=spec.rank, world_size=spec.config.ranks,
        timeout=timedelta(seconds=_COLLECTIVE_SECONDS),
    )  # fmt: skip
    try:
        rank = Rank(spec)
        channel.send(Ready(rank.facts()))
        while not isinstance(message := channel.receive(), Stop):
            answer = rank.handle(message)
            if answer is not None:
                channel.send(answer)
    finally:
        distributed.destroy_process_group()
