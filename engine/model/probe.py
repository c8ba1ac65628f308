"""How well the model, with its router as it is now, predicts a fixed text held out of training."""

from collections.abc import Sequence

import torch
from torch.nn import functional

from engine.model.decoder import Decoder
from engine.model.teacher_forced import teacher_forced_logits
from engine.moe.context import MoEStepContext


def probe_nll(
    decoder: Decoder, context: MoEStepContext, token_ids: Sequence[int]
) -> tuple[float, int]:
    """Negative log-likelihood of `token_ids`: its sum in nats, and the tokens predicted.

    Every rank must call it in the same step: the rank that has the text with it, the others with an
    empty sequence, since the MoE layers' collectives need them all. The context's recorder sees the
    probe as if it were traffic: pass one that forgets.
    """
    logits = teacher_forced_logits(decoder, context, token_ids)
    if len(token_ids) < 2:
        return 0.0, 0
    wanted = torch.tensor(list(token_ids[1:]), device=decoder.device)
    return float(functional.cross_entropy(logits[:-1], wanted, reduction="sum")), len(wanted)
