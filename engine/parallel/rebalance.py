"""Expert placement by load: replicate hot experts, then pack copies evenly. Pure; numpy.

The expert-parallelism load balancer of DeepSeek (EPLB): hierarchical when the expert groups split
over the nodes (a token's groups then stay on few nodes), global otherwise. Greedy throughout:
O(L · (E log E + R · E)) for R redundant slots.
"""

import numpy as np
import numpy.typing as npt

from engine.errors import BadRequestError
from engine.parallel.placement import Placement

Loads = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]


def rebalance(
    loads: Loads, *, num_slots: int, ranks: int, num_groups: int = 1, nodes: int = 1
) -> Placement:
    """A placement that levels the load of ranks.

    Args:
        loads: [L, E], recent assignments of every expert, any scale.
        num_slots: S, physical experts of a layer; a multiple of the ranks, at least E.
        ranks: M; a multiple of the nodes.
        num_groups: expert groups of the router; hierarchical when a multiple of the nodes.
        nodes: machines.

    Raises:
        BadRequestError: sizes do not divide, or there are fewer slots than experts.
    """
    experts = loads.shape[1]
    _check(experts, num_slots, ranks, num_groups, nodes)
    if num_groups % nodes:
        num_groups, nodes = 1, 1
    rows = [_layer(row, num_slots, ranks, num_groups, nodes) for row in loads]
    return Placement(np.stack(rows), ranks, experts)


def balanced_packing(weights: Loads, packs: int) -> tuple[Index, Index]:
    """Put items into packs of equal size, heaviest first, each into the lightest pack with room.

    Args:
        weights: [n], n a multiple of `packs`.
        packs: number of packs.

    Returns:
        pack of every item [n], and its place inside the pack [n].
    """
    size = len(weights) // packs
    pack = np.zeros(len(weights), dtype=np.int64)
    place = np.zeros(len(weights), dtype=np.int64)
    filled = np.zeros(packs, dtype=np.int64)
    weight = np.zeros(packs)
    for item in np.argsort(-weights, kind="stable"):
        target = int(np.where(filled < size, weight, np.inf).argmin())
        pack[item], place[item] = target, filled[target]
        filled[target] += 1
        weight[target] += weights[item]
    return pack, place


def replicate(loads: Loads, num_slots: int) -> tuple[Index, Index]:
    """Give every expert a slot, then each spare slot to the expert with most load per copy.

    Args:
        loads: [E].
        num_slots: at least E.

    Returns:
        expert of every slot [num_slots], and copies of every expert [E].
    """
    expert = np.arange(num_slots, dtype=np.int64)
    copies = np.ones(len(loads), dtype=np.int64)
    for slot in range(len(loads), num_slots):
        hottest = int((loads / copies).argmax())
        expert[slot] = hottest
        copies[hottest] += 1
    return expert, copies


def _layer(loads: Loads, num_slots: int, ranks: int, num_groups: int, nodes: int) -> Index:
    """One layer's row [S]: groups to nodes, copies within a node, copies to ranks."""
    group_size = len(loads) // num_groups
    group_loads = loads.reshape(num_groups, group_size).sum(1)
    node_of, place_in_node = balanced_packing(group_loads, nodes)
    row: list[Index] = []
    for node in range(nodes):
        groups = np.flatnonzero(node_of == node)
        groups = groups[np.argsort(place_in_node[groups])]
        members = (groups[:, None] * group_size + np.arange(group_size)).ravel()
        expert, copies = replicate(loads[members], num_slots // nodes)
        weights = (loads[members] / copies)[expert]
        rank, place = balanced_packing(weights, ranks // nodes)
        slots = np.empty(len(expert), dtype=np.int64)
        slots[rank * (len(expert) * nodes // ranks) + place] = members[expert]
        row.append(slots)
    return np.concatenate(row)


def _check(experts: int, num_slots: int, ranks: int, num_groups: int, nodes: int) -> None:
    for field, value, divisor in (
        ("num_slots", num_slots, ranks),
        ("ranks", ranks, nodes),
        ("num_experts", experts, num_groups),
    ):
        if value % divisor:
            raise BadRequestError(
                f"{field} {value} is not a multiple of {divisor}",
                field=field, value=value, bound=divisor,
            )  # fmt: skip
    if num_slots < experts:
        raise BadRequestError(
            f"num_slots {num_slots} is below the {experts} experts",
            field="num_slots", value=num_slots, bound=experts,
        )  # fmt: skip
