"""The SQLite file behind open connections: whether it still is the one at its path.

A file that is removed under a running process lives on without a name, and what is written to it
is gone with the process. So every transaction asks first, with one `stat`, whether its connection
and the path still lead to the same file. A connection to a file that was replaced is dropped, so
an operator who puts a file back is served from it at once. SQLite leaves the write-ahead log at the
path alone when it closes a connection whose file has moved.
"""

from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.exc import DisconnectionError

from controlplane.errors import StorageError

Identity = tuple[int, int]
"""Device and inode."""
_OPENED = "trimtab_file"


class SqliteFile:
    """The file at a path, and the connections of one engine to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def watch(self, engine: Engine) -> None:
        """See to every connection: it opens a file that is there, and is used while it is."""
        event.listen(engine, "do_connect", self._before_connect)
        event.listen(engine, "connect", self._remember)
        event.listen(engine, "checkout", self._check)

    def _before_connect(self, _dialect: Any, _record: Any, args: list[Any], named: Any) -> None:
        """Open without making: an empty file in the place of a lost one would hide the loss."""
        self._present()
        args[0] = f"{self.path.absolute().as_uri()}?mode=rw"
        named["uri"] = True

    def _remember(self, _connection: Any, record: Any) -> None:
        record.info[_OPENED] = self._present()

    def _check(self, _connection: Any, record: Any, _proxy: Any) -> None:
        if self._present() != record.info[_OPENED]:
            raise DisconnectionError(f"{self.path} is another file now")

    def _present(self) -> Identity:
        try:
            found = self.path.stat()
        except OSError:
            raise StorageError(
                f"there is no database file {self.path}: put it back, or is another one meant "
                "(--config), or none made yet (trimtab db upgrade)?"
            ) from None
        return found.st_dev, found.st_ino
