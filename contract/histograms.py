"""Upper bucket bounds, in seconds or bytes. Every SLO threshold is a bound (0.2 s, 0.05 s).

A histogram of bounds b has len(b) + 1 cells; the last counts what lies above the last bound.
Source: a superset of the OpenTelemetry GenAI advice; all-to-all doubles from 50 µs.
"""

TTFT_SECONDS: tuple[float, ...] = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.75, 1.0, 2.5,
    5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0,
)  # fmt: skip
TPOT_SECONDS: tuple[float, ...] = (
    0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1.0, 2.5,
)  # fmt: skip
INTER_TOKEN_SECONDS: tuple[float, ...] = TPOT_SECONDS
QUEUE_SECONDS: tuple[float, ...] = (
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
STEP_SECONDS: tuple[float, ...] = (
    0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5,
)  # fmt: skip
REQUEST_SECONDS: tuple[float, ...] = tuple(0.01 * 2**i for i in range(14))
ALL_TO_ALL_SECONDS: tuple[float, ...] = tuple(5e-5 * 2**i for i in range(13))
MESSAGE_BYTES: tuple[float, ...] = tuple(float(256 * 4**i) for i in range(9))

# On /metrics a subset of the bounds, so that an EP group stays under 1,000 series.
TTFT_EXPOSED: tuple[float, ...] = (
    0.02, 0.04, 0.08, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 1.0, 2.5, 10.0, 60.0,
)  # fmt: skip
TPOT_EXPOSED: tuple[float, ...] = (
    0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0,
)  # fmt: skip
QUEUE_EXPOSED: tuple[float, ...] = (0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
STEP_EXPOSED: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
REQUEST_EXPOSED: tuple[float, ...] = REQUEST_SECONDS[::2]
ALL_TO_ALL_EXPOSED: tuple[float, ...] = ALL_TO_ALL_SECONDS[::2]
MESSAGE_EXPOSED: tuple[float, ...] = MESSAGE_BYTES[::2]

TTFT_OBJECTIVE_SECONDS = 0.2
TPOT_OBJECTIVE_SECONDS = 0.05
