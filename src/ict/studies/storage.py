"""The database of a study: SQLite or PostgreSQL, a lock in it, and errors that never show a password."""

import fcntl
import hashlib
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from ict.base.errors import UserError
from ict.base.files import remove_leftovers, temporary_beside
from ict.base.reading import reading

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy import URL, Engine

_SQLITE = b"SQLite format 3\0"
_CONNECT_SECONDS = 10
_LOCK_SECONDS = 120
_FORM = "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


def require_optuna() -> None:
    try:
        import optuna
    except ImportError:
        raise UserError("searches and trials need Optuna, which is missing: pip install 'ict-ssl[search]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # otherwise it prints a line for every trial


class Storage:
    """A checked database address. The database is opened on first use."""

    def __init__(self, address: str) -> None:
        require_optuna()
        self.url = _parsed(address)
        self.is_sqlite = self.url.drivername == "sqlite"

    def __str__(self) -> str:
        """The address without user, password and options."""
        if self.is_sqlite:
            return str(self.url.database)
        port = f":{self.url.port}" if self.url.port else ""
        return f"postgresql://{self.url.host or ''}{port}/{self.url.database or ''}"

    @property
    def missing(self) -> bool:
        """Whether it is a file that does not exist yet."""
        return self.is_sqlite and not Path(str(self.url.database)).exists()

    def connect(self) -> "RDBStorage":
        """Optuna's storage, with its tables created if missing. Two workers may do this at the same time."""
        from optuna.storages import RDBStorage

        connect = {"timeout": _LOCK_SECONDS} if self.is_sqlite else {"connect_timeout": _CONNECT_SECONDS}
        engine = {"connect_args": connect, "pool_pre_ping": True}
        with self.lock("tables"), warnings.catch_warnings(action="ignore"):
            try:
                if self.missing:
                    self._make_file()
                return RDBStorage(self.url.render_as_string(hide_password=False), engine_kwargs=engine)
            except RuntimeError:
                raise StorageError(f"storage {self} is of another version of Optuna: use a new one.") from None

    def _make_file(self) -> None:
        """Make the SQLite file with its tables whole or not at all: Optuna cannot use a part of them."""
        from optuna.storages import RDBStorage

        path = Path(str(self.url.database))
        remove_leftovers(path.parent)
        temporary = temporary_beside(path)
        try:
            RDBStorage(f"sqlite:///{temporary}").engine.dispose()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def lock(self, name: str) -> AbstractContextManager[None]:
        """A lock that one process holds at a time. It is released when that process ends, even by a crash."""
        return self._file_lock() if self.is_sqlite else self._advisory_lock(name)

    def close(self) -> None:
        """Close the connections of locks. Those of `connect` belong to the caller."""
        if "_engine" in vars(self):
            self._engine.dispose()

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn database errors into a StorageError with one sentence."""
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            yield
        except (SQLAlchemyError, StorageInternalError) as problem:
            source = problem if isinstance(problem, DBAPIError) else problem.__cause__
            cause = source.orig if isinstance(source, DBAPIError) else source or problem
            raise StorageError(f"storage {self} cannot be used: {self._scrubbed(str(cause))}.") from None

    @contextmanager
    def _file_lock(self) -> Iterator[None]:
        path = Path(f"{self.url.database}.lock")
        self._check_database()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield
        except OSError as problem:
            if problem.filename != str(path) and problem.filename != str(path.parent):
                raise
            raise StorageError(f"storage {self} cannot be used: {problem.strerror}.") from None

    def _check_database(self) -> None:
        """Refuse a path that holds something else, before anything is written beside it."""
        database = Path(str(self.url.database))
        if not database.exists():
            return
        if not database.is_file():
            raise StorageError(f"storage {self} cannot be used: it is not a file.")
        with reading(database, "a SQLite database", "name another file"), database.open("rb") as file:
            if (start := file.read(len(_SQLITE))) and start != _SQLITE:
                raise StorageError(f"storage {self} cannot be used: file is not a database.")

    @contextmanager
    def _advisory_lock(self, name: str) -> Iterator[None]:
        from sqlalchemy import text

        key = int.from_bytes(hashlib.sha256(f"ict {name}".encode()).digest()[:8], signed=True)
        with self._engine.begin() as connection:
            connection.execute(text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
            yield

    @cached_property
    def _engine(self) -> "Engine":
        """Used only for locks: each is a transaction of its own, around those of Optuna."""
        from sqlalchemy import create_engine

        return create_engine(self.url, pool_pre_ping=True, connect_args={"connect_timeout": _CONNECT_SECONDS})

    def _scrubbed(self, message: str) -> str:
        """The first line of a message without the password, in any form that a driver may repeat."""
        line = (message.splitlines() or ["no reason was given"])[0].strip().rstrip(".")
        secrets = [self.url.password, *(v for k, v in self.url.query.items() if "pass" in k)]
        for secret in (str(secret) for secret in secrets if secret):
            for form in (secret, quote(secret, safe=""), quote_plus(secret)):
                line = line.replace(form, "***")
        return line


class StorageError(UserError):
    """The database cannot be reached or used at the moment."""


def _parsed(address: str) -> "URL":
    """Parse an address. Errors never repeat it, since a malformed one may contain a password anywhere."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise UserError(f"the address of the storage cannot be read: write {_FORM}.") from None
    kind = url.drivername.partition("+")[0]
    if kind == "sqlite" and url.database and url.database != ":memory:":
        return url.set(drivername="sqlite")
    if kind not in ("postgresql", "postgres"):
        raise UserError(f"the storage is neither a SQLite file nor a PostgreSQL server: write {_FORM}.")
    if "@" in (url.host or ""):
        raise UserError(
            f"the address of the storage has more than one @: write {_FORM}, and %40 for an @ in a password."
        )
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise UserError("PostgreSQL needs a driver, which is missing: pip install 'ict-ssl[search]'.") from None
    return url.set(drivername="postgresql+psycopg")
