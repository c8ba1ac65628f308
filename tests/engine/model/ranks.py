"""One rank of a model over gloo; started by the tests."""

from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from engine.model.checkpoint.load import load_model, read_facts
from engine.model.teacher_forced import teacher_forced_logits
from engine.parallel.distributed import DistributedGroup
from tests.support.models import CPU, dropless


def logits_over_ranks(
    checkpoint: Path, folder: Path, texts: list[list[list[int]]]
) -> list[list[torch.Tensor]]:
    """Logits of every text, by rank; `texts[rank]` are its texts step by step, [] when idle."""
    spawn(_rank, args=(checkpoint, folder, texts), nprocs=len(texts), join=True)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(len(texts))]


def _rank(rank: int, checkpoint: Path, folder: Path, texts: list[list[list[int]]]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=len(texts),
        timeout=timedelta(seconds=60),
    )  # fmt: skip
    decoder = load_model(checkpoint, group=DistributedGroup(), device=CPU, dtype=torch.float32)
    bias = read_facts(checkpoint).bias
    context = dropless(None if bias is None else torch.from_numpy(bias))
    seen = [teacher_forced_logits(decoder, context, text).clone() for text in texts[rank]]
    torch.save(seen, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()
