"""Draw the next token of each sequence: greedy, or by temperature and top-p.

A draw depends only on the seed that comes with it (mixed from the sequence's own and the position),
never on what else is in the batch or on how often the sequence was preempted.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniforms(seeds: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """One uniform in [0, 1) for each seed: the output function of SplitMix64, 53 bits."""
    state = seeds.astype(np.uint64)
    with np.errstate(over="ignore"):
        state = state + _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * _MIX_1
        state = (state ^ (state >> np.uint64(27))) * _MIX_2
    state = state ^ (state >> np.uint64(31))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def sample(
    logits: Tensor,
    *,
    temperature: npt.NDArray[np.float32],
    top_p: npt.NDArray[np.float32],
    seed: npt.NDArray[np.int64],
) -> Tensor:
    """Draw one token for each row.

    Args:
        logits: FP32 [S, V].
        temperature: [S], 0 is greedy.
        top_p: [S], probability mass of the nucleus, in (0, 1].
        seed: [S].

    Returns:
        int64 [S].
    """
    greedy = logits.argmax(dim=-1)
    warm = np.flatnonzero(temperature > 0)
    if not warm.size:
        return greedy
    device = logits.device
    rows = torch.from_numpy(warm).to(device)
    drawn = draw(
        logits.index_select(0, rows),
        temperature=torch.from_numpy(temperature[warm]).to(device),
        top_p=torch.from_numpy(top_p[warm]).to(device),
        uniform=torch.from_numpy(uniforms(seed[warm])).to(device),
    )
    return greedy.index_copy(0, rows, drawn)


def draw(logits: Tensor, *, temperature: Tensor, top_p: Tensor, uniform: Tensor) -> Tensor:
    """Invert the cumulative distribution of the nucleus; [S, V], the others [S]; int64 [S].

    The nucleus is the smallest set of most likely tokens whose mass reaches top-p, the most likely
    one always included (Holtzman et al. 2020).
    """
    probabilities = (logits / temperature.unsqueeze(1)).softmax(dim=-1, dtype=torch.float64)
    ordered, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    kept = ordered.masked_fill(before >= top_p.unsqueeze(1), 0.0)
    kept[:, 0] = ordered[:, 0]
    mass = kept.cumsum(dim=-1)
    target = uniform.unsqueeze(1) * mass[:, -1:]
    place = torch.searchsorted(mass, target, right=True)
    last = (kept > 0).sum(dim=-1, keepdim=True) - 1
    return tokens.gather(1, place.minimum(last)).squeeze(1)
