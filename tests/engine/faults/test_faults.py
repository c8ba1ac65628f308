import pytest
import torch

from engine.errors import BadRequestError
from engine.faults.bias_ramp import BiasRamp
from engine.faults.control import Faults
from engine.faults.names import ENGINE_FAULTS, FAULTS
from engine.faults.slow_rank import SlowRank
from engine.faults.wrong_sign import WrongSignRegulator
from engine.worker.step_hook import HookStep


def make_step(bias, counts, *, ticks: int = 1, tokens: int = 64, rank: int = 0, pauses=None):
    return HookStep(
        rank=rank, bias=bias, expert_counts=counts, num_tokens=tokens, ticks=ticks,
        pause=(pauses if pauses is not None else []).append,
    )  # fmt: skip


def test_the_wrong_sign_makes_busy_experts_busier():
    fault = WrongSignRegulator(update_speed=0.01, updates_per_second=8, min_tokens=32)
    bias = torch.zeros(1, 4)
    fault.after_step(make_step(bias, torch.tensor([[9, 1, 1, 1]])))
    assert bias[0].tolist() == pytest.approx([0.01, -0.01, -0.01, -0.01])


def test_updates_wait_for_the_beat_and_for_enough_tokens():
    fault = WrongSignRegulator(update_speed=0.01, updates_per_second=8, min_tokens=32)
    bias = torch.zeros(1, 2)
    counts = torch.tensor([[3, 1]])
    fault.after_step(make_step(bias, counts, ticks=0))
    assert bias.sum() == 0
    fault = WrongSignRegulator(update_speed=0.01, updates_per_second=8, min_tokens=32)
    fault.after_step(make_step(bias, counts, tokens=16))
    assert bias.abs().sum() == 0
    fault.after_step(make_step(bias, counts, tokens=16, ticks=0))
    assert bias[0].tolist() == pytest.approx([0.01, -0.01])


def test_ranks_with_the_same_counts_keep_the_same_bias():
    torch.manual_seed(1)
    faults = [
        WrongSignRegulator(update_speed=0.01, updates_per_second=8, min_tokens=1) for _ in "ab"
    ]
    biases = [torch.zeros(3, 8) for _ in faults]
    for _ in range(50):
        counts = torch.randint(0, 9, (3, 8))
        for rank, (fault, bias) in enumerate(zip(faults, biases, strict=True)):
            fault.after_step(make_step(bias, counts, rank=rank))
    assert torch.equal(*biases)
    assert biases[0].abs().sum() > 0


def test_the_ramp_ends_at_its_height_on_its_experts():
    ramp = BiasRamp(height=0.3, seconds=1.0, first_expert=2, num_experts=3)
    bias = torch.zeros(2, 8)
    counts = torch.zeros(2, 8, dtype=torch.int64)
    ramp.before_step(make_step(bias, counts, ticks=4))
    assert bias[:, 2:5].unique().tolist() == pytest.approx([0.12])
    for _ in range(30):
        ramp.before_step(make_step(bias, counts, ticks=1))
    assert bias[:, 2:5].flatten().tolist() == pytest.approx([0.3] * 6)
    assert bias.sum().item() == pytest.approx(1.8)


def test_only_the_slow_rank_pauses():
    pauses: list[float] = []
    fault = SlowRank(rank=1, pause_seconds=0.25)
    counts = torch.zeros(1, 1, dtype=torch.int64)
    for rank in (0, 1, 2):
        fault.before_step(make_step(None, counts, rank=rank, pauses=pauses))
    assert pauses == [0.25]


class HookedRecord:
    def __init__(self) -> None:
        self.hooks: dict = {}

    async def set_hook(self, name, hook):
        self.hooks.pop(name, None)
        if hook is not None:
            self.hooks[name] = hook

    @property
    def active_hooks(self):
        return tuple(self.hooks)


async def test_a_fault_is_injected_with_its_defaults_and_cleared():
    engine = HookedRecord()
    faults = Faults(engine, frozenset({"wrong-sign"}))
    await faults.inject("wrong-sign", {"update_speed": 0.005})
    (active,) = faults.active()
    assert active.params == {"update_speed": 0.005, "updates_per_second": 8.0, "min_tokens": 32}
    assert engine.hooks["wrong-sign"].tick_seconds == 0.125
    await faults.clear("wrong-sign")
    await faults.clear("wrong-sign")
    assert faults.active() == ()
    assert engine.hooks == {}


async def test_a_fault_that_a_rollback_ended_is_not_active():
    engine = HookedRecord()
    faults = Faults(engine, ENGINE_FAULTS)
    await faults.inject("bias-ramp", {})
    engine.hooks.clear()
    assert faults.active() == ()


async def test_load_side_faults_are_labels():
    engine = HookedRecord()
    faults = Faults(engine, frozenset(FAULTS))
    await faults.inject("surge", {})
    assert [each.name for each in faults.active()] == ["surge"]
    assert engine.hooks == {}
    await faults.clear("surge")
    assert faults.active() == ()


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("slow-rank", {}, "fault 'slow-rank' is not enabled; enabled: wrong-sign"),
        ("wrong-sign", {"speed": 1}, "has no parameter 'speed'; it has update_speed"),
        ("wrong-sign", {"update_speed": 3}, r"update_speed 3 is outside 1e-06 \.\. 0\.1"),
    ],
)
async def test_a_bad_injection_is_named(name, params, match):
    faults = Faults(HookedRecord(), frozenset({"wrong-sign"}))
    with pytest.raises(BadRequestError, match=match):
        await faults.inject(name, params)


def test_an_unknown_fault_name_is_refused_at_start():
    with pytest.raises(BadRequestError, match="unknown fault 'meteor'"):
        Faults(HookedRecord(), frozenset({"meteor"}))
