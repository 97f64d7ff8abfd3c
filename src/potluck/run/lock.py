"""One process at a time in the folder of a run."""

from __future__ import annotations

from io import FileIO
from pathlib import Path

from potluck.errors import BusyRunError, RunError
from potluck.run.files import is_there, open_regular, reason

try:
    import fcntl
except ImportError:  # pragma: no cover (Windows has no such lock: there, nothing keeps others out)
    fcntl = None  # type: ignore[assignment]  # a module cannot be optional

NAME = ".lock"


class Lock:
    """The lock of a folder; the system gives it back when the process ends, however it ends.

    Args:
        folder: The folder. The lock is a file in it, which stays when the lock is given back.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: FileIO | None = None

    @property
    def path(self) -> Path:
        """The file that is locked."""
        return self.folder / NAME

    @property
    def held(self) -> bool:
        """Whether it is this one that holds the lock."""
        return self._file is not None

    @property
    def lost(self) -> bool:
        """Whether it is held in vain: the file was deleted or replaced, and others can lock the new one."""
        return self._file is not None and not is_there(self._file, self.path)

    def take(self) -> None:
        """Take the lock, if it is not held already; ``BusyRunError`` if another process has it."""
        if self._file is not None or fcntl is None:
            return
        file = open_regular(self.path, "ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not is_there(file, self.path):
                raise RunError(f"{self.path} was deleted or replaced in this moment: try again.")
        except BlockingIOError as error:
            file.close()
            raise BusyRunError(f"{self.folder} is being run by another process: wait for it, or stop it.") from error
        except OSError as error:
            file.close()
            raise RunError(f"cannot lock {self.path}: {reason(error)}.") from error
        except BaseException:
            file.close()
            raise
        self._file = file

    def is_busy(self) -> bool:
        """Whether anything holds the lock, as far as can be seen from here; looking changes nothing."""
        if fcntl is None:
            return False
        try:
            with open_regular(self.path) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except (RunError, OSError):  # there is no lock, or none that can be asked for
            return False
        return False

    def close(self) -> None:
        """Give it back."""
        if self._file is not None:
            self._file.close()
            self._file = None
