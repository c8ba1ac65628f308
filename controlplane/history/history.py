"""The history of every engine: what ingest writes to, and what everything else reads from."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from contract.frame_codec import Frame
from contract.frame_stack import Stack, stack_frames
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.history import frames as stored
from controlplane.history import pins, retention, ring, tiers
from controlplane.history.cache import FrameCache, key_of
from controlplane.history.cover import Covered, cover, newest_minute_end, rollups
from controlplane.history.frames import Gap
from controlplane.history.models import EngineBoot
from controlplane.history.newest import NewestFrame, newest_of_ring
from controlplane.history.partitions import CHUNKS
from controlplane.history.ring import Appended, Outcome, ReceivedFrame
from controlplane.history.summing import WindowSum, sum_frames
from controlplane.history.tiers import Span
from controlplane.history.window import EngineWindow
from controlplane.settings import HistorySettings


class History:
    """Frames, windows, gaps. Safe to use from any thread; times are unix seconds."""

    def __init__(self, database: Database, settings: HistorySettings, clock: Clock) -> None:
        self.database = database
        self.settings = settings
        self.clock = clock
        self.cache = FrameCache(settings.cache_bytes)

    def append(self, frames: Sequence[ReceivedFrame]) -> Appended:
        """Store a batch durably: when this returns, stored frames survive a power loss.

        Raises:
            StorageError: nothing of the batch was stored.
        """
        now = self.clock.now()
        with self.database.write() as session:
            appended = ring.append(session, frames, ring_frames=self.settings.ring_frames, now=now)
        for received, outcome in zip(frames, appended.outcomes, strict=True):
            if outcome is Outcome.STORED:
                self.cache.put(received)
        return appended

    def engine_ids(self) -> list[str]:
        """Engines that ever sent a frame, by id."""
        with self.database.read() as session:
            return list(
                session.scalars(
                    select(EngineBoot.engine_id).distinct().order_by(EngineBoot.engine_id)
                )
            )

    def newest(self, engine_id: str) -> NewestFrame | None:
        """The frame that the engine sent last; None when it never sent one."""
        with self.database.read() as session:
            return newest_of_ring(session, self.cache, engine_id)

    def frames(self, engine_id: str, start: float, end: float) -> list[Frame]:
        """Every stored 1 s frame of [start, end), oldest first."""
        with self.database.read() as session:
            stack, older = self._stored(session, engine_id, start, end)
        found = stack.frames()
        if older:
            found += older
            found.sort(key=lambda frame: frame.header.started_unix_seconds)
        return found

    def _stored(
        self, session: Session, engine_id: str, start: float, end: float
    ) -> tuple[Stack, list[Frame]]:
        """The frames of [start, end) in the ring, and those that chunks alone hold still."""
        stack = stored.stack_of_ring(session, self.cache, engine_id, start, end)
        oldest = stored.oldest_ordinal(session, engine_id, self.settings.ring_frames)
        if not oldest:
            return stack, []
        held = {key_of(header) for header in stack.headers}
        older = stored.frames_of_chunks(session, engine_id, start, end, before_ordinal=oldest)
        return stack, [frame for frame in older if key_of(frame.header) not in held]

    def gaps(self, engine_id: str, start: float, end: float) -> list[Gap]:
        """Frames known to be missing, that touch [start, end)."""
        with self.database.read() as session:
            return stored.gaps_of(session, engine_id, start, end)

    def window(self, engine_id: str, start: float, end: float) -> EngineWindow | None:
        """The sum of the frames of [start, end); None when there is none."""
        missing = sum(
            gap.frames for gap in self.gaps(engine_id, start, end) if start <= gap.started < end
        )
        with self.database.read() as session:
            stack, older = self._stored(session, engine_id, start, end)
        total = WindowSum()
        total.add_stack(stack_frames(older))
        total.add_stack(stack)
        return total.window(engine_id, start, end, missing=missing)

    def windows(self, engine_id: str, end: float, seconds: float, count: int) -> list[EngineWindow]:
        """The last `count` windows of `seconds` before `end`, oldest first; empty ones left out."""
        bounds = [(end - (i + 1) * seconds, end - i * seconds) for i in reversed(range(count))]
        found = (self.window(engine_id, start, stop) for start, stop in bounds)
        return [window for window in found if window is not None]

    def newest_boots(self) -> list[EngineBoot]:
        """The newest boot of every engine, by engine id."""
        newest = (
            select(EngineBoot.engine_id, func.max(EngineBoot.last_ordinal).label("ordinal"))
            .group_by(EngineBoot.engine_id)
            .subquery()
        )
        with self.database.read() as session:
            return list(
                session.scalars(
                    select(EngineBoot)
                    .join(
                        newest,
                        (EngineBoot.engine_id == newest.c.engine_id)
                        & (EngineBoot.last_ordinal == newest.c.ordinal),
                    )
                    .order_by(EngineBoot.engine_id)
                )
            )

    def sealed_until(self, engine_ids: Sequence[str]) -> float | None:
        """The latest minute's end up to which any of the engines is sealed; None for none."""
        with self.database.read() as session:
            return newest_minute_end(session, engine_ids)

    def sums(
        self, engine_ids: Sequence[str], span: Span, *, only: Collection[str] | None = None
    ) -> list[Covered]:
        """The sum over a span for each engine, from the tiers that `tiers.finest` names.

        A single engine's sum runs up to its newest frame, and is exact to the frame for spans of at
        most 5 minutes whose frames are kept; others are of whole stored intervals. Each says what
        it covers.

        Raises:
            InvalidInputError: the span needs more stored sums than one answer reads.
        """
        finest = tiers.finest(
            span, kept_from=self._kept_from(engine_ids, span), single=len(engine_ids) == 1
        )
        if finest == tiers.FRAMES:
            window = self.window(engine_ids[0], span.start, span.end)
            if window is not None:
                return [Covered(window, {tiers.FRAMES: window.frames}, span)]
        covered: list[Covered] = []
        for tier in (tier for tier in reversed(tiers.ROLLUPS) if tier >= finest):
            covered = self._covered(engine_ids, span, tier, only)
            if any(found.window is not None for found in covered):
                break  # what was kept less long than it is now is there in coarser tiers alone
        return covered

    def _covered(
        self, engine_ids: Sequence[str], span: Span, finest: int, only: Collection[str] | None
    ) -> list[Covered]:
        with self.database.read() as session:
            unsealed: dict[str, Stack] = {}
            if len(engine_ids) == 1:
                aligned = span.aligned(finest)
                unsealed[engine_ids[0]] = stored.stack_of_ring(
                    session, self.cache, engine_ids[0], aligned.start, aligned.end,
                    unsealed_only=True,
                )  # fmt: skip
            return cover(session, engine_ids, span, finest, only, unsealed)

    def _kept_from(self, engine_ids: Sequence[str], span: Span) -> dict[int, float]:
        """The first second that is kept, by tier; of a pinned span everything is."""
        with self.database.read() as session:
            if retention.is_pinned(session, engine_ids, span):
                return {}
        by_tier = retention.limits(self.settings, self.clock.now()).by_tier
        return {tiers.FRAMES: by_tier[CHUNKS], 10: by_tier[10], 60: by_tier[60]}

    def minutes(self, engine_id: str, start: float, end: float) -> list[int]:
        """Starts of the minutes that hold frames of [start, end), oldest first."""
        with self.database.read() as session:
            return stored.minutes_with_frames(session, engine_id, start, end)

    def each_frame(
        self, engine_id: str, start: float, end: float, minutes: Iterable[int]
    ) -> Iterator[EngineWindow]:
        """Every frame of [start, end) in some minutes as a window of its own, minute by minute."""
        for minute in minutes:
            found = self.frames(engine_id, max(start, minute), min(end, minute + tiers.MINUTE))
            for frame in found:
                began = frame.header.started_unix_seconds
                stop = began + frame.header.interval_seconds
                window = sum_frames(engine_id, began, stop, [frame])
                if window is not None:
                    yield window

    def each_rollup(
        self, engine_id: str, span: Span, tier: int, *, only: Collection[str] | None = None
    ) -> Iterator[EngineWindow]:
        """Every stored interval of a tier that touches the span, oldest first."""
        with self.database.read() as session:
            yield from rollups(session, engine_id, span.aligned(tier), tier, only)

    def pin(
        self, engine_id: str | None, started: float, ended: float, *, reason: str, actor: str
    ) -> int:
        """Keep a span, of one engine or of all, beyond retention; gives the pin's id.

        Raises:
            InvalidInputError: the span is empty.
        """
        with self.database.write() as session:
            return pins.add(
                session, engine_id, started, ended, reason=reason, actor=actor,
                now=self.clock.now(),
            )  # fmt: skip

    def unpin(self, pin_id: int) -> None:
        """Let retention have a span again.

        Raises:
            NotFoundError: there is no such pin.
        """
        with self.database.write() as session:
            pins.remove(session, pin_id)

    def pins(self) -> list[pins.Pin]:
        """Every pin, newest first."""
        with self.database.read() as session:
            return pins.all_pins(session)
