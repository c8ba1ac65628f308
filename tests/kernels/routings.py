"""Routings that break kernels: odd shapes, empty experts, everything on one, nothing at all."""

import torch

SHAPES = [
    (0, 3, 5), (1, 1, 1), (1, 8, 33), (7, 3, 5), (33, 2, 17), (70, 1, 9),
]  # fmt: skip
"""(tokens, top-k, experts)."""


def distinct(tokens, top_k, experts, device, seed=0):
    """Each token on top_k distinct experts."""
    random = torch.Generator().manual_seed(seed)
    top_k = min(top_k, experts)
    return torch.rand(tokens, experts, generator=random).argsort(1)[:, :top_k].to(device)


def all_to_one(tokens, top_k, experts, device):
    """Every assignment on the last expert: all others are empty."""
    return torch.full((tokens, top_k), experts - 1, device=device)


def with_holes(tokens, top_k, experts, device):
    """A third of the assignments absent, and expert 0 empty."""
    slots = distinct(tokens, top_k, experts, device, seed=1)
    flat = torch.arange(slots.numel(), device=device).view_as(slots)
    return slots.masked_fill((flat % 3 == 0) | (slots == 0), -1)


def nothing(tokens, top_k, _experts, device):
    """Every assignment dropped."""
    return torch.full((tokens, top_k), -1, device=device)


ROUTINGS = [distinct, all_to_one, with_holes, nothing]
