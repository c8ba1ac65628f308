"""Active step hooks and the beats of their clocks, the same for every rank."""

from dataclasses import dataclass

from engine.worker.step_hook import StepHook


@dataclass(slots=True)
class _Active:
    hook: StepHook
    started: float
    ticks: int = 0


class HookClock:
    """Hooks by name. Beats are counted from the start, so slow steps lose none."""

    def __init__(self) -> None:
        self._active: dict[str, _Active] = {}

    @property
    def active(self) -> tuple[str, ...]:
        """Names of the hooks that run."""
        return tuple(self._active)

    def start(self, name: str, hook: StepHook, now: float) -> None:
        """Begin to beat for a hook; one of the same name is replaced."""
        self._active[name] = _Active(hook, now)

    def stop(self, name: str) -> None:
        """End a hook; nothing happens when it does not run."""
        self._active.pop(name, None)

    def bias_reloaded(self) -> None:
        """A commit reloaded the bias: hooks that move it are quarantined, as on the ranks."""
        self._active = {n: each for n, each in self._active.items() if not each.hook.moves_bias}

    def due(self, now: float) -> dict[str, int]:
        """Beats since the last call, by hook."""
        beats: dict[str, int] = {}
        for name, each in self._active.items():
            total = int((now - each.started) / each.hook.tick_seconds)
            beats[name], each.ticks = total - each.ticks, total
        return beats
