"""Files that are on the disk, whole, when the call returns: or not there at all."""

import fcntl
import os
from pathlib import Path

from engine.errors import StateError


def write_file(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` so that a crash leaves the old file, the new one, or none."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    fsync_folder(path.parent)


def fsync_folder(folder: Path) -> None:
    """Make the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderLock:
    """One engine a state folder: held until closed, released by the kernel when we die."""

    def __init__(self, folder: Path) -> None:
        path = folder / "lock"
        self._file = path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise StateError(
                f"another engine uses the state folder {folder}; stop it or choose another one",
                field="state_dir", value=str(folder),
            ) from None  # fmt: skip

    def close(self) -> None:
        """Let another engine have the folder."""
        self._file.close()
