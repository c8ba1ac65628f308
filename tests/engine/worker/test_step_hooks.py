import torch

from engine.worker.step_hooks import StepHooks


class Recording:
    tick_seconds = 1.0

    def __init__(self, *, moves_bias: bool) -> None:
        self.moves_bias = moves_bias
        self.seen: list[tuple[str, int, int]] = []

    def before_step(self, step):
        self.seen.append(("before", step.ticks, int(step.expert_counts.sum())))

    def after_step(self, step):
        self.seen.append(("after", step.ticks, int(step.expert_counts.sum())))


def make_hooks() -> StepHooks:
    return StepHooks(1, 2, 4, torch.device("cpu"))


def test_hooks_see_their_own_ticks_and_the_counts_only_after_the_step():
    hooks = make_hooks()
    one, two = Recording(moves_bias=True), Recording(moves_bias=False)
    hooks.put("one", one)
    hooks.put("two", two)
    hooks.before_step(None, 3, {"one": 2})
    hooks.after_step(None, torch.ones(2, 4, dtype=torch.int64), 3, {"one": 2})
    assert one.seen == [("before", 2, 0), ("after", 2, 8)]
    assert two.seen == [("before", 0, 0), ("after", 0, 8)]


def test_quarantine_ends_only_what_moves_the_bias():
    hooks = make_hooks()
    mover, pauser = Recording(moves_bias=True), Recording(moves_bias=False)
    hooks.put("mover", mover)
    hooks.put("pauser", pauser)
    hooks.quarantine()
    hooks.before_step(None, 1, {})
    assert not mover.seen
    assert len(pauser.seen) == 1
    hooks.put("pauser", None)
    assert not hooks
