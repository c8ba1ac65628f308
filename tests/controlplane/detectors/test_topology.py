"""Another model under the same engine id: the newest header decides what is judged."""

from typing import Any

import pytest

from contract.frame import ARRAYS
from controlplane.detectors.evaluate import DETECTORS, evaluate
from controlplane.detectors.finding import DetectorName
from controlplane.detectors.reference import build_reference
from controlplane.detectors.settings import DetectorSettings
from controlplane.detectors.topology import of_topology
from controlplane.history.summing import sum_frames
from controlplane.slo.evaluate import evaluate as evaluate_slos
from controlplane.slo.settings import SloSettings
from tests.support.frames import START, make_frame

OLD: dict[str, Any] = {"layers": 2, "experts": 16, "ranks": 2, "boot_id": "old"}
SETTINGS = DetectorSettings()
EVERY = tuple(ARRAYS)


def _windows(first: int, count: int, **topology):
    found = [
        sum_frames(
            "e0", START + 10 * i, START + 10 * (i + 1),
            [make_frame(10 * i + s, arrays=EVERY, fill=50, **topology) for s in range(10)],
        )
        for i in range(first, first + count)
    ]  # fmt: skip
    return [window for window in found if window is not None]


@pytest.mark.parametrize(
    "new",
    [
        {"layers": 3, "experts": 32, "ranks": 4},
        {"layers": 2, "experts": 8, "ranks": 2},
        {"layers": 1, "experts": 16, "ranks": 3},
    ],
)
def test_windows_of_another_topology_say_nothing_of_the_newest(new):
    old, newer = _windows(0, 9, **OLD), _windows(9, 4, boot_id="new", **new)
    reference = build_reference(old)
    mixed = evaluate([*old, *newer], reference, SETTINGS, long_windows=[*old, *newer])
    alone = evaluate(newer, None, SETTINGS, long_windows=newer)
    by_name = [dict(zip(DETECTORS, findings, strict=True)) for findings, _ in (mixed, alone)]
    for found in by_name:
        del found[DetectorName.TELEMETRY_GAP]
    assert by_name[0] == by_name[1]
    assert mixed[1] == alone[1]
    built = build_reference([*old, *newer])
    assert built is not None
    assert built.shares.shape == (new["layers"], new["experts"])


def test_slices_of_a_model_with_other_layers_are_left_out():
    old, newer = _windows(0, 9, **OLD), _windows(9, 4, boot_id="new", layers=3, experts=8)
    mixed = evaluate_slos([*old, *newer], newer[-1].end, SloSettings())[2]
    assert mixed.n == evaluate_slos(newer, newer[-1].end, SloSettings())[2].n


def test_what_an_older_topology_alone_told_of_a_window_is_left_out():
    frames = [make_frame(0, arrays=("assignments", "overflow"), **OLD)]
    frames += [make_frame(0, arrays=("assignments",), boot_id="new", started=START + 1, layers=3)]
    window = sum_frames("e0", START, START + 10, frames)
    assert window is not None
    (kept,) = of_topology([window], window.header)
    assert set(kept.arrays) == {"assignments"}
    findings, _ = evaluate([window] * 6, None, SETTINGS)
    assert len(findings) == len(DETECTORS)
    assert evaluate_slos([window] * 6, window.end, SloSettings())[2].n == 0


def test_windows_of_one_topology_are_the_same_windows():
    windows = _windows(0, 3, **OLD)
    assert all(
        a is b for a, b in zip(of_topology(windows, windows[-1].header), windows, strict=True)
    )
