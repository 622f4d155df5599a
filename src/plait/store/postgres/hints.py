"""Hints: what was committed is told to the other processes of a database, so that who waits need not ask all the time.

By NOTIFY, after the commit and on a connection of its own: a commit waits for no hint, and fails with none. A hint
may be lost, or come for nothing; who waits looks unasked as well. It names places, not sessions: numbers that
sessions and scopes are given by hashing, so that one is seldom woken by another's writes.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, contextmanager
from uuid import UUID

from psycopg.pq.misc import PGnotify

from plait.errors import ClosedError
from plait.store.postgres import homes
from plait.store.postgres._sync.connecting import Line, connect
from plait.store.postgres.homes import Where
from plait.store.postgres.settings import ANSWER_S, Settings
from plait.store.postgres.statements import parse, read
from plait.store.protocol import Scope, SessionRef

Ring = Callable[[], None]

EVERYWHERE = 1 << 16
"""The place of everything; the others are the numbers below it, four digits each in a hint."""

MOST_PLACES = 1500
"""A hint for more names none, for its text may have 8,000 bytes."""

GAP_S = 0.05
"""How long at least lies between two hints of a process; what is committed meanwhile goes in the next."""

RETRY_S = 5.0
REFUSED_S = 60.0
"""How long nothing is tried after the server could not be reached, and where nobody can listen."""

FORGOTTEN_S = 30.0
"""How long after the last question hints are still listened to."""

LAST_S = 1.0
"""How long a close waits for the last hint to be sent."""

STATEMENTS = parse(read("hints.sql"))
log = logging.getLogger("plait")


def place_of(of: SessionRef | Scope | None) -> int:
    """The place of a session or a scope."""
    if of is None:
        return EVERYWHERE
    return _number(homes.of_scope(of) if isinstance(of, Scope) else homes.of_session(of).home)


def _number(home: UUID | None) -> int:
    return home.int >> 112 if home is not None else EVERYWHERE


class Hints:
    """Sends and hears the hints of one process, in a thread that begins when there is something to do."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._nudge: tuple[socket.socket, socket.socket] | None = None
        self._closed = self._held = False
        self._asleep = True
        self._fresh: set[int] = set()
        self._due_at = 0.0
        self._listening = False
        self._asked_at = -FORGOTTEN_S
        self._refused_until = self._deaf_until = 0.0
        self._numbers: dict[int, int] = {}
        self._heard = 0
        self._rings: dict[int, list[Ring]] = {}

    # -- who writes ------------------------------------------------------------

    def committed(self, wheres: Iterable[Where]) -> None:
        """Tell of sessions that were written to. It returns at once, and never fails."""
        places = {_number(home) for where in wheres for home in (where.home, where.scope)}
        if not places:
            return
        if self._listening:
            self._ring(places)
        with self._lock:
            self._fresh |= places
            asleep, self._asleep = self._asleep, False
        if asleep:
            self._wake()

    # -- who waits -------------------------------------------------------------

    def number(self, place: int) -> int | None:
        """A number that is another one once somebody has committed there; `None` while hints are not heard."""
        if self._closed:
            raise ClosedError
        now = time.monotonic()
        self._asked_at, new = now, now - self._asked_at > FORGOTTEN_S / 2
        if self._listening:
            return self._heard + self._numbers.get(place, 0)
        if new or self._thread is None:
            self._wake()
        return None

    @contextmanager
    def ringing(self, place: int, ring: Ring) -> Generator[None]:
        """Call `ring`, from whatever thread, whenever the number of a place may be another one."""
        with self._lock:
            self._rings.setdefault(place, []).append(ring)
        try:
            yield
        finally:
            with self._lock:
                rings = self._rings[place]
                rings.remove(ring)
                if not rings:
                    del self._rings[place]

    def _ring(self, places: Iterable[int] | None = None) -> None:
        """The numbers of places are others now, or those of all."""
        with self._lock:
            if places is None:
                self._heard += 1
                called = [ring for rings in self._rings.values() for ring in rings]
            else:
                called = list[Ring]()
                for place in {*places, EVERYWHERE}:
                    self._numbers[place] = self._numbers.get(place, 0) + 1
                    called += self._rings.get(place, ())
        for ring in called:
            ring()

    # -- life ------------------------------------------------------------------

    def close(self) -> None:
        """Send what is to be sent, if that goes quickly, and end; harmless when called again."""
        self._closed = True
        self._end()
        self._ring()

    def hold(self) -> None:
        """Have no thread until `go_on`: a fork copies none."""
        self._held = True
        self._end()

    def go_on(self) -> None:
        """Begin again when there is something to do."""
        self._held = False
        if self._fresh or self._rings:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._closed or self._held:
                return
            if self._thread is None:
                self._nudge = socket.socketpair()
                for end in self._nudge:
                    end.setblocking(False)
                self._thread = threading.Thread(target=self._run, args=self._nudge, name="plait-hints", daemon=True)
                self._thread.start()
            else:
                self._push()

    def _push(self) -> None:
        if self._nudge is not None:
            with contextlib.suppress(OSError):  # it is full of nudges, or has ended
                self._nudge[1].send(b"\0")

    def _end(self) -> None:
        """Let the thread end, which may be waiting for a server that is gone."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._push()
        if thread is not None and thread is not threading.current_thread():
            thread.join(LAST_S)

    # -- the thread ------------------------------------------------------------

    def _run(self, nudge: socket.socket, other: socket.socket) -> None:
        """Have a line while there is something to send or somebody waits; then keep it."""
        with nudge, other, selectors.DefaultSelector() as ears:  # not `select`, which knows a thousand files
            ears.register(nudge, selectors.EVENT_READ)
            while True:
                if self._needed() and time.monotonic() >= self._refused_until:
                    self._served(ears)
                    self._fall_silent()
                if self._ended():
                    return
                self._rest(ears, self._refused_until)

    def _served(self, ears: selectors.BaseSelector) -> None:
        try:
            with closing(connect(self._settings)) as line:
                line.add_notify_handler(lambda notify: self._told(line, notify.pid, notify.payload))
                ear = line.pgconn.socket  # which a line that is lost does not tell any more
                ears.register(ear, selectors.EVENT_READ)
                try:
                    self._serve(line, ears)
                finally:
                    ears.unregister(ear)
        except Exception as error:  # a hint is nobody's answer: who waits looks unasked
            log.info("hints of changes are neither sent nor heard for %g s: %s", RETRY_S, error)
            self._refused_until = time.monotonic() + RETRY_S

    def _serve(self, line: Line, ears: selectors.BaseSelector) -> None:
        """Send and hear until the store is closed or the line is lost."""
        while line.server is not None and not line.server.standby:
            ended = self._ended()
            if self._fresh and (ended or time.monotonic() >= self._due_at):
                self._send(line)
            if ended:
                return
            self._listen(line, direct=line.server.direct)
            self._rest(ears, self._due_at, line)
        self._refused_until = self._cannot_listen("a standby")

    def _ended(self) -> bool:
        return self._thread is not threading.current_thread()

    def _needed(self) -> bool:
        return bool(self._fresh) or self._wanted()

    def _wanted(self) -> bool:
        """Whether anybody here waits for hints, or did not long ago."""
        return bool(self._rings) or time.monotonic() - self._asked_at < FORGOTTEN_S

    def _listen(self, line: Line, *, direct: bool) -> None:
        """Listen if somebody waits, and only then: every hint wakes who listens."""
        wanted = self._wanted()
        if self._listening and not wanted:
            self._fall_silent()
            line.execute(STATEMENTS["unlisten"].query)
        elif wanted and not self._listening and not direct:
            if time.monotonic() >= self._deaf_until:
                self._deaf_until = self._cannot_listen("a pooler")
        elif wanted and not self._listening:
            line.execute(STATEMENTS["listen"].query)
            self._listening = True
            self._ring()

    def _cannot_listen(self, what: str) -> float:
        log.info("%s passes on no hints of changes: the store is asked for changes every 0.1 s instead", what)
        return time.monotonic() + REFUSED_S

    def _fall_silent(self) -> None:
        if self._listening:
            self._listening = False
            self._ring()

    def _send(self, line: Line) -> None:
        with self._lock:
            places, self._fresh = self._fresh, set()
        self._due_at = time.monotonic() + GAP_S
        text = "" if len(places) > MOST_PLACES else "".join(f"{place:04x}" for place in places if place < EVERYWHERE)
        line.talk([(STATEMENTS["hint"].query, (text,))], ANSWER_S)

    def _rest(self, ears: selectors.BaseSelector, until: float, line: Line | None = None) -> None:
        """Wait for a nudge, for something to hear or for a time; once that is over, for one that may send."""
        with self._lock:
            left = until - time.monotonic()
            self._asleep = left <= 0 and not self._fresh
        for key, _ in ears.select(None if self._asleep else max(left, 0)):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.recv(4096)
            elif line is not None:
                line.pgconn.consume_input()
                while (notify := line.pgconn.notifies()) is not None:
                    self._took(line, notify)

    def _took(self, line: Line, notify: PGnotify) -> None:
        self._told(line, notify.be_pid, notify.extra.decode("ascii", "replace"))

    def _told(self, line: Line, sender: int, text: str) -> None:
        """A hint has come; those of this process were taken in when they were made."""
        if sender == line.info.backend_pid:
            return
        try:
            places = [int(text[at : at + 4], 16) for at in range(0, len(text), 4)]
        except ValueError:  # it is not one of ours
            places = []
        self._ring(places or None)
