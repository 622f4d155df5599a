"""How a PostgreSQL database is to be used, and what a connection to it is told."""

from __future__ import annotations

from typing import Any

import psycopg
import psycopg.conninfo
from msgspec import Struct
from psycopg.types.numeric import Int8BinaryDumper

from plait.errors import StoreUnavailableError, UsageError
from plait.store.postgres.statements import own

SERVER_VERSION = 140000
ENCODING = "UTF8"
MAX_CONNECTIONS = 16
CONNECT_TIMEOUT_S = 10
STATEMENT_TIMEOUT_S = 300.0

ANSWER_S = 5.0
"""How long an answer may be on its way, beyond what the server may wait for others."""

LONGEST_SILENCE_S = 60
"""After how long at most a host that says nothing more is taken for gone."""

LONGEST_IDLE_S = 60.0
"""How long at most the server keeps a transaction whose client has stopped in the middle."""

_SERVER = own()["server"].query


class Settings(Struct, frozen=True):
    """How a database is to be used: `url` as libpq takes it; no wait for others, or for an answer, is without an end."""

    url: str
    read_only: bool = False
    busy_timeout_s: float = 30.0
    statement_timeout_s: float = STATEMENT_TIMEOUT_S
    max_connections: int = MAX_CONNECTIONS

    def answer_s(self, wait_s: float) -> float:
        """How long a round trip of a write may be unanswered that waits so long for rows, and it may be for a standby."""
        return max(self.short_answer_s, wait_s + min(ANSWER_S, self.short_answer_s))

    @property
    def read_answer_s(self) -> float:
        """The same for a read, which waits for nobody; half, so that there is time to ask again."""
        return max(1.0, self.busy_timeout_s / 2)

    @property
    def short_answer_s(self) -> float:
        """The same for what waits for no row."""
        return max(1.0, self.busy_timeout_s)

    @property
    def idle_s(self) -> float:
        """How long the server waits for the next statement of a transaction: less than others wait for its rows."""
        return max(1.0, min(self.busy_timeout_s / 2, LONGEST_IDLE_S))

    def write_limits(self, wait_s: float | None = None) -> tuple[str, str, str]:
        """What `limits` of `own.sql` is told for a write that waits so long for others, by default as long as is allowed."""
        wait_s = self.busy_timeout_s if wait_s is None else wait_s
        return _ms(wait_s), _ms(self.statement_timeout_s), _ms(self.idle_s)

    def read_limits(self) -> tuple[str, str, str]:
        """The same for `read_limits`, and for a read."""
        return _ms(self.read_answer_s), _ms(self.statement_timeout_s), _ms(self.idle_s)


def _ms(seconds: float) -> str:
    return str(max(1, min(int(seconds * 1000), (1 << 31) - 1)))


class Server(Struct, frozen=True):
    """What a connection found out: whether it is plait's already, can be written, and goes straight to the server.

    `distributed`: its tables may be spread over many servers, where a transaction over two of them costs much.
    """

    has_schema: bool
    standby: bool
    direct: bool
    distributed: bool = False


def check_url(url: str) -> None:
    """`UsageError` for a URL that libpq does not take; nothing of it is shown, for it may hold a password.

    So is one whose password has signs that end it for libpq, which would then tell the rest as a host, a port or a database.
    """
    try:
        found = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise UsageError("this is not a URL of PostgreSQL's; give postgresql://user@host/database") from None
    ports = str(found.get("port") or "")
    place = url.partition("?")[0].partition("://")[2]
    if place.count("@") > 1 or "@" in place.partition("/")[2] or (not ports.replace(",", "").isdigit() and ports):
        raise UsageError(
            "of this URL the host and port cannot be told; write @ : / ? # % in a password as %40 %3A and so on"
        )


def options(settings: Settings) -> dict[str, Any]:
    """What every connection is made with; of the time limits those that the URL has are left as they are."""
    named = psycopg.conninfo.conninfo_to_dict(settings.url)
    return {
        "conninfo": settings.url,
        "autocommit": True,
        "prepare_threshold": None,
        "client_encoding": ENCODING,
        "fallback_application_name": "plait",
        **{name: value for name, value in _limits(settings).items() if name not in named},
    }


def _limits(settings: Settings) -> dict[str, int]:
    """After how many seconds (`tcp_user_timeout`: ms) a host that is silent is given up: about `busy_timeout_s`."""
    silence = max(2, min(int(settings.busy_timeout_s), LONGEST_SILENCE_S))
    return {
        "connect_timeout": min(CONNECT_TIMEOUT_S, silence),
        "keepalives": 1,
        "keepalives_idle": max(1, silence // 3),
        "keepalives_interval": max(1, silence // 6),
        "keepalives_count": 3,
        "tcp_user_timeout": silence * 1000,
    }


def prepare(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Let all numbers be sent as the columns are, so that a statement is the same whatever it is given."""
    connection.adapters.register_dumper(int, Int8BinaryDumper)


def check(row: Any, backend_pid: int) -> Server:
    """What the server said of itself; `StoreUnavailableError` if plait cannot work with it.

    Where something stands between, which hands the connection to another client after each
    transaction, the process named at connecting is not the server's: then nothing is prepared there.
    """
    pid, version, encoding, standby, has_schema, distributed = row
    if version < SERVER_VERSION:
        raise StoreUnavailableError(f"the server is PostgreSQL {version // 10000}; plait needs 14 or newer")
    if encoding != ENCODING:
        raise StoreUnavailableError(
            f"the database has the encoding {encoding}; plait needs UTF8: create it with ENCODING 'UTF8' TEMPLATE template0"
        )
    return Server(bool(has_schema), bool(standby), pid == backend_pid, bool(distributed))


SERVER_QUERY = _SERVER
