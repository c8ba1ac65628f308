import torch

from engine.model.mask import Visibility


def seen(visibility: Visibility, query: int, keys: int) -> list[int]:
    mask = visibility.mask(torch.tensor([[query]]), torch.arange(keys)[None])
    return torch.nonzero(mask[0]).flatten().tolist()


def test_a_token_sees_itself_and_what_came_before() -> None:
    assert seen(Visibility(), 2, 5) == [0, 1, 2]


def test_a_window_counts_the_token_itself() -> None:
    assert seen(Visibility(window=2), 3, 5) == [2, 3]


def test_a_chunk_starts_afresh_at_its_border() -> None:
    assert seen(Visibility(chunk=4), 3, 9) == [0, 1, 2, 3]
    assert seen(Visibility(chunk=4), 5, 9) == [4, 5]


def test_a_short_context_needs_no_mask_of_its_own() -> None:
    assert Visibility(window=8, chunk=8).is_plain(8)
    assert not Visibility(window=8).is_plain(9)
    assert not Visibility(chunk=8).is_plain(9)
