"""The demo's report: JSON for scripts, a table and a verdict for people."""

import json
from dataclasses import asdict, dataclass

from rich.table import Table

from trimtab.demo.phase import PhaseFigures

RECOVERED = "recovered"
TAU_TOLERANCE = 0.25
PROBE_TOLERANCE = 0.01
T_95 = 2.36
"""Two-sided 95 % quantile of Student's t with 7 degrees of freedom: eight request buckets."""
CLEAR_RISE = 1.5
"""How many times τ must rise before a skew is called one."""


@dataclass(frozen=True, slots=True)
class ActionReport:
    """The act that answered the fault."""

    knob: str
    from_value: str | int | None
    to: str | int | None
    mode: str
    verify: str

    def as_dict(self) -> dict[str, object]:
        """As the report spells it."""
        return {
            "knob": self.knob, "from": self.from_value, "to": self.to, "mode": self.mode,
            "verify": self.verify,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemoReport:
    """Everything that a run is judged by. Times in seconds from the start of the traffic."""

    verdict: str
    fault: str
    injected_at_s: float | None
    detected_after_s: float | None
    acted_after_s: float | None
    recovered_after_s: float | None
    action: ActionReport | None
    before: PhaseFigures
    during: PhaseFigures
    after: PhaseFigures
    frames: dict[str, int]
    engine: dict[str, int]
    traffic: dict[str, object]
    actions: list[dict[str, object]]

    def to_json(self) -> str:
        """The report as JSON."""
        body = asdict(self)
        body["action"] = None if self.action is None else self.action.as_dict()
        return json.dumps(body, indent=2) + "\n"


def bias_verdict(
    before: PhaseFigures, during: PhaseFigures, after: PhaseFigures, action: ActionReport | None
) -> str:
    """`recovered`, or the first reason why not, for the faults of the router bias."""
    if action is None:
        return "no bias rollback was made"
    if action.verify != "pass":
        return f"the rollback's verification said {action.verify}"
    if before.tau is None or during.tau is None or after.tau is None:
        return "too few tokens to measure the expert skew"
    if during.tau < CLEAR_RISE * before.tau:
        return f"the fault hardly moved the skew: tau {before.tau:.2f} to {during.tau:.2f}"
    if not _back(before, after):
        return f"the skew did not come back: tau {before.tau:.2f} before, {after.tau:.2f} after"
    return _answers(before, after)


def quiet_verdict(before: PhaseFigures, after: PhaseFigures, bias_actions: int) -> str:
    """The verdict without a fault: nothing may have been done to the bias."""
    if bias_actions:
        return f"{bias_actions} actions on the bias although nothing was wrong"
    return _answers(before, after)


def load_verdict(after: PhaseFigures, acted: bool, relaxed: bool, healthy: bool) -> str:
    """The verdict for faults of the load: acted, relaxed afterwards, healthy again."""
    if not acted:
        return "no knob was moved"
    if not relaxed:
        return "the knobs were not relaxed afterwards"
    if not healthy:
        return "an SLO is still breached"
    return RECOVERED if not after.errors else f"{after.errors} requests failed afterwards"


def _back(before: PhaseFigures, after: PhaseFigures) -> bool:
    if before.tau is None or after.tau is None:
        return False
    interval = T_95 * (before.tau_se or 0.0)
    return bool(abs(after.tau - before.tau) <= max(TAU_TOLERANCE * before.tau, interval))


def _answers(before: PhaseFigures, after: PhaseFigures) -> str:
    if before.probe_nll is None or after.probe_nll is None:
        return "the probe gave no answer"
    if after.probe_nll > before.probe_nll * (1 + PROBE_TOLERANCE):
        return (
            f"answers are worse than before: probe loss {before.probe_nll:.4f} to "
            f"{after.probe_nll:.4f} nats per token"
        )
    return RECOVERED


_ROWS = (
    ("expert skew tau", "tau", "", 1),
    ("  standard error", "tau_se", "", 1),
    ("card load CV (debiased)", "card_cv", "", 1),
    ("overflow, % of assignments", "overflow_rate", "%", 100),
    ("gate mass kept, %", "gate_mass_kept", "%", 100),
    ("probe loss, nats per token", "probe_nll", "", 1),
    ("TTFT p99, ms", "ttft_p99_s", "", 1000),
    ("TPOT p99, ms", "tpot_p99_s", "", 1000),
    ("requests", "requests", "n", 1),
    ("errors", "errors", "n", 1),
)


def table(report: DemoReport) -> Table:
    """Before, during and after, side by side."""
    view = Table(title=f"Fault: {report.fault}")
    view.add_column("")
    for heading in ("before", "during", "after"):
        view.add_column(heading, justify="right")
    for title, name, unit, factor in _ROWS:
        cells = []
        for phase in (report.before, report.during, report.after):
            value = getattr(phase, name)
            cells.append("-" if value is None else _cell(value * factor, unit))
        view.add_row(title, *cells)
    return view


def _cell(value: float, unit: str) -> str:
    return f"{value:.0f}" if unit == "n" else f"{value:.2f}" if unit == "%" else f"{value:.3g}"
