from types import SimpleNamespace

from engine.llm_engine.hook_clock import HookClock


def make_hook(*, moves_bias: bool = True, tick_seconds: float = 0.5):
    return SimpleNamespace(moves_bias=moves_bias, tick_seconds=tick_seconds)


def test_beats_follow_the_clock_and_none_is_lost_or_doubled():
    clock = HookClock()
    clock.start("a", make_hook(), now=10.0)
    assert clock.due(10.4) == {"a": 0}
    assert clock.due(10.6) == {"a": 1}
    assert clock.due(10.9) == {"a": 0}
    assert clock.due(12.1) == {"a": 3}


def test_a_reloaded_bias_ends_what_moves_it():
    clock = HookClock()
    clock.start("mover", make_hook(), now=0.0)
    clock.start("pauser", make_hook(moves_bias=False), now=0.0)
    clock.bias_reloaded()
    assert clock.active == ("pauser",)
    clock.stop("pauser")
    clock.stop("pauser")
    assert clock.due(5.0) == {}
