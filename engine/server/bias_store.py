"""Every version of the router bias: values in files named by their hash, the rest in SQLite.

A file is read and hashed again at each use; one that does not match is quarantined and never
served. Versions count up and are never reused. Snapshots of an updater that nothing refers to
are forgotten beyond `KEPT_SNAPSHOTS`, oldest first.
"""

from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from contract.admin import BiasInfo, BiasOrigin, BiasStatus
from engine.errors import BadRequestError, CorruptSnapshotError, NotFoundError
from engine.server.answers import Answer, Ticket, remember_answer
from engine.server.bias_file import content_hash, from_safetensors, to_safetensors
from engine.server.core import Bias
from engine.server.database import Database
from engine.server.durable import write_file
from engine.server.facts import read_fact, write_fact

KEPT_SNAPSHOTS = 256


class BiasStore:
    """The stored versions; `write` puts a file durably on the disk."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        *,
        write: Callable[[Path, bytes], None] = write_file,
    ) -> None:
        self._database = database
        self._folder = folder
        self._write = write
        folder.mkdir(parents=True, exist_ok=True)
        rows = database.rows("SELECT info FROM biases ORDER BY version")
        infos = [BiasInfo.model_validate_json(row[0]) for row in rows]
        self._infos = {info.bias_hash: info for info in infos}
        self._highest = int(read_fact(database, "highest_bias_version", "0"))

    def versions(self) -> tuple[BiasInfo, ...]:
        """All versions, oldest first."""
        return tuple(self._infos.values())

    def info(self, bias_hash: str) -> BiasInfo:
        """One version; NotFoundError names the newest ones."""
        found = self._infos.get(bias_hash)
        if found is None:
            newest = [info.bias_hash for info in self.versions()[-3:]]
            raise NotFoundError(
                f"no stored bias has the hash {bias_hash}; the newest are {', '.join(newest)}",
                field="bias_hash", value=bias_hash, bound=newest,
            )  # fmt: skip
        return found

    def has(self, bias_hash: str) -> bool:
        """Whether a version is stored."""
        return bias_hash in self._infos

    @property
    def last_known_good(self) -> BiasInfo | None:
        """The version that is last known good."""
        good = BiasStatus.LAST_KNOWN_GOOD
        return next((info for info in self._infos.values() if info.status is good), None)

    def path(self, bias_hash: str) -> Path:
        """Where the values of a version lie."""
        return self._folder / f"{bias_hash}.safetensors"

    def load(self, bias_hash: str) -> Bias:
        """The values [layers, experts], checked against their hash.

        Raises:
            NotFoundError: no such version.
            CorruptSnapshotError: the file is missing or damaged; the version is quarantined.
        """
        info = self.info(bias_hash)
        path = self.path(bias_hash)
        try:
            bias = from_safetensors(path.read_bytes(), shape=(info.layers, info.experts))
            intact = content_hash(bias) == bias_hash
        except (OSError, BadRequestError):
            intact = False
            bias = np.empty((0, 0), dtype=np.float32)
        if not intact:
            self.set_status(bias_hash, BiasStatus.QUARANTINED)
            raise CorruptSnapshotError(
                f"bias version {info.version} is damaged: {path.name} does not match its hash; "
                "it is quarantined and will not be served",
                field="bias_hash", value=bias_hash, bound="an intact snapshot",
            )  # fmt: skip
        return bias

    def put(
        self,
        bias: Bias,
        origin: BiasOrigin,
        *,
        now: float,
        note: str = "",
        ticket: Ticket | None = None,
        answer: Answer | None = None,
    ) -> BiasInfo:
        """Store a version as a candidate; values already stored keep their version.

        The file is durable before the row that names it. A damaged file is healed: its values are
        at hand again.
        """
        bias_hash = content_hash(bias)
        known = self._infos.get(bias_hash)
        self._write(self.path(bias_hash), to_safetensors(bias))
        info = known or BiasInfo(
            bias_hash=bias_hash, version=self._highest + 1, origin=origin,
            status=BiasStatus.CANDIDATE, created_unix_seconds=now, layers=bias.shape[0],
            experts=bias.shape[1], distance=self._distance(bias),
            max_abs=float(np.abs(bias).max(initial=0.0)), note=note,
        )  # fmt: skip
        if info.status is BiasStatus.QUARANTINED:
            info = info.model_copy(update={"status": BiasStatus.CANDIDATE})
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO biases (bias_hash, version, info) VALUES (?, ?, ?)",
                (bias_hash, info.version, info.model_dump_json()),
            )
            highest = max(self._highest, info.version)
            write_fact(connection, "highest_bias_version", str(highest))
            if answer is not None:
                remember_answer(connection, ticket, answer)
        self._highest = highest
        self._infos[bias_hash] = info
        return info

    def _distance(self, bias: Bias) -> float:
        good = self.last_known_good
        if good is None:
            return 0.0
        try:
            return float(np.abs(bias - self.load(good.bias_hash)).max(initial=0.0))
        except CorruptSnapshotError:
            return 0.0  # quarantined just now: there is no last known good to measure from

    def set_status(self, bias_hash: str, status: BiasStatus) -> BiasInfo:
        """Change the status of one version."""
        changed = self.info(bias_hash).model_copy(update={"status": status})
        self._store_infos([changed])
        return changed

    def mark_good(self, bias_hash: str, *, ticket: Ticket | None, answer: Answer) -> BiasInfo:
        """Make a version the last known good; the former one goes back to baking.

        Distances are measured anew, all in one transaction with the answer.
        """
        good = self.load(bias_hash)
        changed: list[BiasInfo] = []
        for version in self.versions():
            distance = self._distance_of(version, good)
            info = self.info(version.bias_hash)  # measuring may have quarantined it
            status = info.status
            if info.bias_hash == bias_hash:
                status = BiasStatus.LAST_KNOWN_GOOD
            elif status is BiasStatus.LAST_KNOWN_GOOD:
                status = BiasStatus.BAKING
            changed.append(info.model_copy(update={"status": status, "distance": distance}))
        self._store_infos(changed, ticket=ticket, answer=answer)
        return self.info(bias_hash)

    def _distance_of(self, info: BiasInfo, good: Bias) -> float:
        if info.status is BiasStatus.QUARANTINED:
            return info.distance
        try:
            return float(np.abs(self.load(info.bias_hash) - good).max(initial=0.0))
        except CorruptSnapshotError:
            return info.distance

    def _store_infos(
        self,
        infos: list[BiasInfo],
        *,
        ticket: Ticket | None = None,
        answer: Answer | None = None,
    ) -> None:
        with self._database.transaction() as connection:
            for info in infos:
                connection.execute(
                    "UPDATE biases SET info = ? WHERE bias_hash = ?",
                    (info.model_dump_json(), info.bias_hash),
                )
            if answer is not None:
                remember_answer(connection, ticket, answer)
        self._infos.update({info.bias_hash: info for info in infos})

    def forget_old_snapshots(self, keep: Collection[str]) -> int:
        """Forget the updater's oldest snapshots beyond the bound, never one in `keep`."""
        old = [
            info
            for info in self.versions()
            if info.origin is BiasOrigin.REGULATOR
            and info.status is BiasStatus.CANDIDATE
            and info.bias_hash not in keep
        ][:-KEPT_SNAPSHOTS]
        with self._database.transaction() as connection:
            for info in old:
                connection.execute("DELETE FROM biases WHERE bias_hash = ?", (info.bias_hash,))
        for info in old:
            del self._infos[info.bias_hash]
            self.path(info.bias_hash).unlink(missing_ok=True)
        return len(old)
