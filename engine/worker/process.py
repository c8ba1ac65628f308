"""The life of one rank process: join the peers, load, serve messages, leave."""

import gc
import signal
import socket
import threading
import traceback
from collections.abc import Sequence

import torch

from engine.errors import CheckpointError
from engine.parallel.socket_group import PeerGoneError
from engine.worker.channel import ChannelClosedError, RankEnd
from engine.worker.expert_group import joined
from engine.worker.heartbeat import Heartbeat
from engine.worker.messages import Crashed, RankSpec, Ready, Stop
from engine.worker.rank import Rank
from engine.worker.settings import die_with_parent, keep_freed_memory

_PEER_GONE_SECONDS = 300.0
"""The engine ends the ranks of one that is gone within seconds; this ends a rank nobody ends."""


def run_rank(
    spec: RankSpec, sock: socket.socket, peers: Sequence[socket.socket | None] = (None,)
) -> None:
    """Entry point of the process; returns when the engine says stop or is gone.

    Args:
        spec: which rank of which engine.
        sock: this rank's end of the channel to the engine.
        peers: a socket to every other rank, None at its own place.
    """
    die_with_parent()
    keep_freed_memory()
    # Ctrl-C and a stop of the whole process group reach the engine too, which stops its ranks.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    channel = RankEnd(sock)
    heartbeat = Heartbeat(channel)
    heartbeat.start()
    try:
        _serve(spec, channel, peers)
    except ChannelClosedError:
        return
    except PeerGoneError:
        # The engine hears of the rank that ended from that rank's own channel, and ends this one.
        threading.Event().wait(_PEER_GONE_SECONDS)
    except Exception as error:  # noqa: BLE001 - the engine must hear why, whatever it was
        detail = str(error) or type(error).__name__
        if not isinstance(error, CheckpointError):
            detail = f"{type(error).__name__}: {detail}\n{traceback.format_exc()}"
        channel.send(Crashed(detail, checkpoint=isinstance(error, CheckpointError)))
        raise SystemExit(1) from None
    finally:
        heartbeat.stop()


def _serve(spec: RankSpec, channel: RankEnd, peers: Sequence[socket.socket | None]) -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    with joined(spec, peers) as group:
        rank = Rank(spec, group)
        channel.send(Ready(rank.facts()))
        gc.freeze()  # a full collection would walk the libraries too, in the middle of a step
        while not isinstance(message := channel.receive(), Stop):
            answer = rank.handle(message)
            if answer is not None:
                channel.send(answer)
                rank.settle()
