"""A small history for tests that look at stored data."""

import numpy as np

from controlplane.clock import ManualClock
from controlplane.db.database import Database
from controlplane.history.history import History
from controlplane.history.upkeep import Upkeep
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received


def filled(database: Database, *, minutes: int = 3, every: int = 10) -> History:
    """Frames of some minutes of one engine, all but the last sealed."""
    clock = ManualClock(START)
    history = History(database, HistorySettings(), clock)
    upkeep = Upkeep(history)
    rng = np.random.default_rng(5)
    for minute in range(minutes):
        history.append(
            [
                received(
                    make_frame(
                        (minute * 60 + second) // every, started=START + minute * 60 + second,
                        interval_seconds=every, experts=8, fill=6, rng=rng,
                    )
                )
                for second in range(0, 60, every)
            ]
        )  # fmt: skip
        clock.advance(60)
        upkeep.seal()
    return history
