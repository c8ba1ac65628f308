import pytest

from trimtab.replay.prompts import DOMAINS, PromptSource


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("tokens", [1, 17, 3000])
def test_a_prompt_has_exactly_the_wanted_bytes(domain: str, tokens: int) -> None:
    text = PromptSource(3, {domain: 1.0}).prompt(tokens)
    assert len(text.encode()) == tokens


def test_the_same_seed_draws_the_same_prompts() -> None:
    first, second = PromptSource(5), PromptSource(5)
    assert [first.prompt(50) for _ in range(9)] == [second.prompt(50) for _ in range(9)]


def test_domains_keep_their_shares_in_every_stretch() -> None:
    source = PromptSource(1, {"code": 0.5, "prose": 0.4, "table": 0.1})
    drawn = [source._next_domain() for _ in range(40)]
    for start in range(0, 40, 10):
        stretch = drawn[start : start + 10]
        assert abs(stretch.count("code") - 5) <= 1
        assert abs(stretch.count("prose") - 4) <= 1
        assert abs(stretch.count("table") - 1) <= 1
