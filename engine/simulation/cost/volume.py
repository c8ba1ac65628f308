"""What an all-to-all moves: bytes of a row, copies after deduplication, the off-domain share.

Row bytes: BF16 2·d; FP8 with an FP32 scale per 128 values d + 4·d/128 (as DeepEP counts them).
Deduplication: distinct groups of m experts that k picks out of E touch, without replacement.
"""

import math

FP8_TILE = 128


def row_bytes(hidden: int, *, fp8: bool) -> float:
    """Payload of one token's row."""
    return hidden + 4 * hidden / FP8_TILE if fp8 else 2.0 * hidden


def distinct_groups(experts: int, top_k: int, groups: int) -> float:
    """Mean number of groups (ranks or nodes) that the k experts of a token lie on.

    Uniform routing; experts split evenly: groups · (1 - C(E - m, k) / C(E, k)) with m = E/groups.
    """
    rest = experts - experts / groups
    missed = math.prod((rest - i) / (experts - i) for i in range(top_k)) if rest >= top_k else 0.0
    return groups * (1.0 - missed)


def off_domain_share(ranks: int, domain: int) -> float:
    """Part of the peers that lie outside a rank's NVLink domain: (M - D)/M, 0 inside."""
    return max(0.0, (ranks - domain) / ranks)


def num_domains(ranks: int, domain: int) -> int:
    """NVLink domains that an EP group spans."""
    return max(1, math.ceil(ranks / domain))
