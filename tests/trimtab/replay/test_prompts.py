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
