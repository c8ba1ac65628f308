"""What a run of the demo is asked for, and how long each part of it may take."""

from dataclasses import dataclass
from pathlib import Path

from engine.faults.names import BIAS_RAMP, LONG_PROMPTS, SURGE, WRONG_SIGN

NO_FAULT = "none"
BIAS_FAULTS = (WRONG_SIGN, BIAS_RAMP)
LOAD_FAULTS = (LONG_PROMPTS, SURGE)
CHOICES = (*BIAS_FAULTS, *LOAD_FAULTS, NO_FAULT)

READY_S = 300.0
HEALTHY_S = 60.0
HEALTHY_FOR_S = 5.0
BEFORE_S = 40.0
LOAD_BEFORE_S = 20.0
"""Enough for latencies; a skew's interval needs the longer phase."""
DETECT_S = 75.0
QUIET_S = 30.0
AFTER_S = 40.0
RELAX_S = 105.0
DURING_S = 10.0
"""The phase `during` is the last so many seconds before the act took hold."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The command line.

    Attributes:
        fault: what is injected.
        headless: no login link, and no waiting at the end.
        linger_s: how long the site stays up after the report; None until Ctrl-C.
        trace: a request trace; None takes the synthetic one.
        folder: where settings, database and logs go.
    """

    fault: str
    headless: bool
    linger_s: float | None
    trace: Path | None
    folder: Path
