import pytest
import torch
from torch.nn import functional

from engine.moe.direct_experts import direct_pays, run_direct
from engine.moe.experts import SPARED_PER_EXPERT, run_experts

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.fixture
def no_gradients():
    with torch.inference_mode():
        yield


def weights(experts, hidden, width, dtype=torch.float32):
    random = torch.Generator().manual_seed(experts)
    gate_up = torch.randn(experts, hidden, 2 * width, generator=random) * hidden**-0.5
    down = torch.randn(experts, width, hidden, generator=random) * width**-0.5
    return gate_up.to(dtype), down.to(dtype)


def plain(x, slots, gates, gate_up, down, *, gate_on_input):
    out = torch.zeros_like(x)
    for token, (row, chosen) in enumerate(zip(slots.tolist(), gates, strict=True)):
        for slot, gate in zip(row, chosen, strict=True):
            if slot >= 0:
                given = x[token] * gate if gate_on_input else x[token]
                gated, up = (given @ gate_up[slot]).chunk(2)
                result = (functional.silu(gated) * up) @ down[slot]
                out[token] += result if gate_on_input else result * gate
    return out


SLOTS = {
    "all-here": torch.tensor([[0, 3, 5], [2, 3, 4], [5, 1, 0]]),
    "one-expert": torch.full((7, 3), 4),
    "dropped": torch.tensor([[-1, 3, -1], [2, -1, 4], [5, 1, 0]]),
    "token-without-work": torch.tensor([[-1, -1, -1], [2, 3, 4], [-1, -1, -1]]),
    "last-only": torch.tensor([[-1, -1, -1], [-1, -1, -1], [-1, -1, 5]]),
}


@pytest.mark.parametrize("gate_on_input", [False, True])
@pytest.mark.parametrize("name", SLOTS)
def test_direct_is_the_plain_sum(name, gate_on_input):
    slots = SLOTS[name]
    gate_up, down = weights(6, 11, 5)
    x, gates = torch.randn(len(slots), 11), torch.rand(slots.shape)
    given = (x, slots, gates, gate_up, down)
    absent = int((slots < 0).sum())
    direct = run_direct(*given, absent=absent, gate_on_input=gate_on_input)
    wanted = plain(*given, gate_on_input=gate_on_input)
    torch.testing.assert_close(direct, wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        run_experts(*given, gate_on_input=gate_on_input), wanted, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("tokens", [1, 16, 300, 2000])
def test_every_form_gives_the_same_on_either_side_of_its_bounds(tokens):
    gate_up, down = weights(32, 24, 8)
    x, gates = torch.randn(tokens, 24), torch.rand(tokens, 4)
    slots = torch.rand(tokens, 32).topk(4).indices
    slots[::3, 1] = -1
    absent = int((slots < 0).sum())
    direct = run_direct(x, slots, gates, gate_up, down, absent=absent, gate_on_input=False)
    chosen = run_experts(x, slots, gates, gate_up, down)
    torch.testing.assert_close(chosen, direct, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("assignments", "occupied", "hidden", "width", "pays"),
    [(256, 110, 96, 16, True), (4096, 128, 96, 16, False), (1024, 128, 512, 128, False)],
    ids=["decode", "prefill", "large-experts"],
)
def test_small_steps_are_direct(assignments, occupied, hidden, width, pays):
    sizes = weights(1, hidden, width)
    assert direct_pays(assignments, occupied, SPARED_PER_EXPERT, *sizes) is pays


def test_other_dtypes_and_gradients_are_grouped():
    assert not direct_pays(1, 1, SPARED_PER_EXPERT, *weights(1, 8, 4, torch.bfloat16))
    with torch.inference_mode(mode=False), torch.enable_grad():
        assert not direct_pays(1, 1, SPARED_PER_EXPERT, *weights(1, 8, 4))
