"""The generation slots of a frame: the newest four, and `OLDER` for all the rest."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from contract.frame import MAX_GENERATIONS, OLDER


def choose_slots(seen: Iterable[int], current: int) -> tuple[int, ...]:
    """Generations of a frame's G axis: `current` and what was seen, newest first.

    With more than `MAX_GENERATIONS` of them the last slot is `OLDER`.
    """
    newest = sorted({current, *seen}, reverse=True)
    if len(newest) <= MAX_GENERATIONS:
        return tuple(newest)
    return (*newest[: MAX_GENERATIONS - 1], OLDER)


def gather(
    by_generation: Mapping[int, npt.NDArray[np.int64]],
    slots: tuple[int, ...],
    shape: tuple[int, ...],
) -> npt.NDArray[np.int64]:
    """Sum int64 arrays of `shape` into [G, *shape]; generations without a slot go to `OLDER`.

    Raises:
        KeyError: a generation has no slot and there is no `OLDER`.
    """
    index = {generation: i for i, generation in enumerate(slots)}
    out = np.zeros((len(slots), *shape), dtype=np.int64)
    for generation, values in by_generation.items():
        slot = index[generation] if generation in index else index[OLDER]
        out[slot] += values
    return out
