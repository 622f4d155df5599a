"""Searching: what the index holds, and what it does not hold yet read and compared by itself."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from plait import jsontext, times
from plait.logic import snippets
from plait.logic.ids import STAGE_PREFIX, can_be_stored
from plait.logic.strands import MAX_SEQ, key_of, seq_of, strand_of
from plait.logic.words import Tokenize, Words, fold, occurrences, weight
from plait.model import Hit
from plait.store.plan import Ask, Enter, Head, Plan, Row, Take
from plait.store.plans import common, indexing, messages, overlays
from plait.store.protocol import Range, Scope, Search, SessionRef

MANY_RANGES = 64
"""With more strands than this the index is asked once for all of them, not for each."""

SCAN_ROWS = 256
NEAR_HITS = 2000
"""Up to this many hits in a scope are put in order at once; with more its sessions are gone through."""

WALK_SESSIONS = 500
EVER_US = (-(1 << 62), 1 << 62)


class Found(Struct):
    """A message that holds the words, before it is shown."""

    key: int
    score: float
    at_us: int
    session: str

    @property
    def seq(self) -> int:
        return seq_of(self.key)


class Asked(Struct):
    """A search as the plans need it: its words, how far to look, and the values of its filters."""

    search: Search
    words: Words
    tokenize: Tokenize
    finder: snippets.Finder
    on: bool
    complete: bool = False
    """Whether the index knows all of the session that is asked about."""
    removals: bool = False
    """Whether the index may know of messages that have been taken away, so that the hits are to be looked at."""

    @property
    def wanted(self) -> int:
        return self.search.offset + self.search.limit

    @property
    def asks(self) -> int:
        """How many hits the index is asked for: all where they are still to be compared."""
        return -1 if self.words.loose else self.wanted

    @property
    def filters(self) -> tuple[int, int, int, str]:
        since, until = self.times
        return since, until, int(not self.search.roles), jsontext.encode(self.search.roles)

    @property
    def narrowed(self) -> bool:
        """Whether a filter has to look at the message itself."""
        return bool(self.search.roles) or (self.search.since_us, self.search.until_us) != (None, None)

    @property
    def times(self) -> tuple[int, int]:
        since, until = self.search.since_us, self.search.until_us
        return EVER_US[0] if since is None else since, EVER_US[1] if until is None else until

    def takes(self, role: str, at_us: int) -> bool:
        since, until = self.times
        return since <= at_us < until and (not self.search.roles or role in self.search.roles)


def search(
    within: SessionRef | Scope, asked: Search, words: Words, tokenize: Tokenize, *, if_complete: bool = False
) -> Plan[list[Hit] | None]:
    """The messages that hold all the words, in the order asked for; `None` if the index must first be `if_complete`."""
    head = (yield from common.take(within)) if isinstance(within, SessionRef) else None
    on, complete = yield from indexing.state(within, head)
    if if_complete and not complete:
        return None
    if not words or asked.limit < 1 or (head is None and isinstance(within, SessionRef)):
        return []
    question = Asked(asked, words, tokenize, snippets.Finder(words, tokenize), on, complete)
    if isinstance(within, SessionRef):
        assert head is not None
        question.removals = bool(head.removals)
        found = yield from _in_session(within, head, question)
    else:
        found = yield from _in_scope(within, question)
    scope = within.scope if isinstance(within, SessionRef) else within
    if words.loose:
        found = yield from _compared(scope, found, question)
    return (yield from _shown(scope, found[asked.offset : question.wanted], question))


def hits(
    within: SessionRef | Scope, keys: Sequence[tuple[str, str]], asked: Search, words: Words, tokenize: Tokenize
) -> Plan[list[Hit]]:
    """Those of these messages, by session id and id, that pass the filters, in the order given."""
    question = Asked(asked, words, tokenize, snippets.Finder(words, tokenize), False)
    scope = within.scope if isinstance(within, SessionRef) else within
    if isinstance(within, SessionRef):
        yield from common.take(within)
        keys = [key for key in keys if key[0] == within.id]
    ids: dict[str, list[str]] = {}
    for session, id in keys:
        ids.setdefault(session, []).append(id)
    found: dict[tuple[str, str], Found] = {}
    for session, wanted in ids.items():
        found.update((yield from _located(SessionRef(scope, session), wanted, question)))
    shown = yield from _shown(scope, [found[key] for key in dict.fromkeys(keys) if key in found], question)
    return [hit for hit in shown if question.takes(hit.role, times.to_us(hit.created_at))]


def _located(ref: SessionRef, ids: Sequence[str], asked: Asked) -> Plan[dict[tuple[str, str], Found]]:
    """Where messages of a session lie, those that are there and on the path asked about."""
    head: Head | None = None if ref.id.startswith(STAGE_PREFIX) else (yield Take(ref))
    if head is None or not head.live:
        return {}
    listed = jsontext.encode([id for id in ids if can_be_stored(id)])
    keys = {key: id for id, key in (yield Ask("find_messages", (listed, head.incarnation)))}
    if not asked.search.branches:
        by_strand = {item.strand: item for item in (yield from _ranges(head, asked.search))}
        keys = {key: id for key, id in keys.items() if _within(key, by_strand)}
    return {(ref.id, id): Found(key, 0.0, 0, ref.id) for key, id in keys.items()}


def _compared(scope: Scope, found: Sequence[Found], asked: Asked) -> Plan[list[Found]]:
    """Those that hold the phrases whole."""
    whole: list[Found] = []
    for item in found:
        yield Enter(SessionRef(scope, item.session))
        for row in (yield Ask("message_by_key", (item.key,))):
            if occurrences(asked.words, asked.tokenize(fold((yield from indexing.text_of(row))))) is not None:
                whole.append(item)
    return whole


# -- one session ---------------------------------------------------------------


def _in_session(ref: SessionRef, head: Head, asked: Asked) -> Plan[list[Found]]:
    ranges = yield from _ranges(head, asked.search)
    unindexed = [] if asked.complete else (yield from _unindexed(ref.id, head, ranges, asked))
    indexed = (yield from _indexed(ref.id, ranges, asked, timed=False)) if asked.on else []
    found = _without_doubles(indexed, unindexed)
    if asked.search.newest_first:
        return sorted(found, key=lambda item: -item.seq)
    return sorted(found, key=lambda item: (-item.score, -item.seq))


def _without_doubles(indexed: Iterable[Found], unindexed: Sequence[Found]) -> list[Found]:
    fresh = {(item.session, item.key) for item in unindexed}
    return [*unindexed, *(item for item in indexed if (item.session, item.key) not in fresh)]


def _ranges(head: Head, asked: Search) -> Plan[list[Range]]:
    """Where to look: a path, or every strand of the session."""
    if not asked.branches:
        return list((yield from common.path_to((yield from common.resolve(head, asked.leaf)))))
    rows = yield Ask("strand_numbers", (head.incarnation,), heavy=True)
    return [Range(strand, 0, MAX_SEQ) for (strand,) in rows]


def _indexed(session: str, ranges: Sequence[Range], asked: Asked, *, timed: bool) -> Plan[list[Found]]:
    """What the index finds in ranges: the first of each, or all where there are many; if `timed`, with their times."""
    if len(ranges) > MANY_RANGES:
        return (yield from _among_many(session, ranges, asked, timed))
    found: list[Found] = []
    for item in ranges:
        lo, hi = key_of(item.strand, item.lo), key_of(item.strand, item.hi)
        found += yield from _ask(session, lo, hi, asked, asked.asks, timed)
    return found


def _among_many(session: str, ranges: Sequence[Range], asked: Asked, timed: bool) -> Plan[list[Found]]:
    by_strand = {item.strand: item for item in ranges}
    lo, hi = key_of(min(by_strand), 0), key_of(max(by_strand), MAX_SEQ)
    found = yield from _ask(session, lo, hi, asked, -1, timed)
    return [item for item in found if _within(item.key, by_strand)]


def _within(key: int, by_strand: dict[int, Range]) -> bool:
    item = by_strand.get(strand_of(key))
    return item is not None and item.lo <= seq_of(key) <= item.hi


def _ask(session: str, lo: int, hi: int, asked: Asked, limit: int, timed: bool) -> Plan[list[Found]]:
    newest_first = asked.search.newest_first
    if not (timed or asked.narrowed or asked.removals):  # no message is looked at, which takes longer than finding it
        query = "search_any_newest" if newest_first else "search_any_best"
        rows = yield Ask(query, (asked.words.match, lo, hi, limit), heavy=True)
        return [Found(key, score, 0, session) for key, score in rows]
    query = "search_newest" if newest_first else "search_best"
    rows = yield Ask(query, (asked.words.match, lo, hi, *asked.filters, limit), heavy=True)
    return [Found(key, score, at, session) for key, score, at, _ in rows]


# -- a scope -------------------------------------------------------------------


def _in_scope(scope: Scope, asked: Asked) -> Plan[list[Found]]:
    unindexed: list[Found] = []
    yield Enter(scope)
    for ref in (yield from _behind(scope, asked)):
        head: Head | None = yield Take(ref)
        if head is not None:
            ranges = yield from _ranges(head, asked.search)
            unindexed += yield from _unindexed(ref.id, head, ranges, asked)
    if not asked.search.newest_first:
        rows = (yield from _ask_scope("search_scope_best", scope, asked, asked.asks)) if asked.on else []
        found = _without_doubles(rows, unindexed)
        return sorted(found, key=lambda item: (-item.score, -item.at_us, -item.key))
    return (yield from _newest_in_scope(scope, asked, unindexed))


def _behind(scope: Scope, asked: Asked) -> Plan[list[SessionRef]]:
    query = "search_behind" if asked.on else "scope_sessions"
    rows = yield Ask(query, (scope.tenant, scope.owner), heavy=True)
    return [SessionRef(Scope(tenant, owner), id) for tenant, owner, id in rows]


def _ask_scope(query: str, scope: Scope, asked: Asked, limit: int) -> Plan[list[Found]]:
    rows = yield Ask(query, (asked.words.match, scope.tenant, scope.owner, *asked.filters, limit), heavy=True)
    return [Found(key, score, at, session) for key, score, at, _, session in rows]


def _newest_in_scope(scope: Scope, asked: Asked, unindexed: list[Found]) -> Plan[list[Found]]:
    """All hits of a scope put in order or, where there are very many, its sessions gone through until enough are found."""
    if not asked.on:
        return _merged(unindexed)
    found = yield from _ask_scope("search_scope_newest", scope, asked, NEAR_HITS + 1)
    if len(found) <= NEAR_HITS:
        return _merged(_without_doubles(found, unindexed))
    walked = None if asked.words.loose else (yield from _walk(scope, asked, unindexed))
    if walked is not None:
        return walked
    found = yield from _ask_scope("search_scope_newest", scope, asked, -1)
    return _merged(_without_doubles(found, unindexed))


def _merged(found: Iterable[Found]) -> list[Found]:
    """Newest first over sessions: in each by seq, and between them by the time of the next one of each."""
    streams: dict[str, list[Found]] = {}
    for item in found:
        streams.setdefault(item.session, []).append(item)
    for stream in streams.values():
        stream.sort(key=lambda item: -item.seq)
    return list(heapq.merge(*map(_timed, streams.values()), key=_order))


def _timed(stream: Iterable[Found]) -> Iterator[Found]:
    """The same with times that only go down, so that streams can be merged by them."""
    last = EVER_US[1]
    for item in stream:
        last = item.at_us = min(item.at_us, last)
        yield item


def _order(item: Found) -> tuple[int, str, int]:
    return -item.at_us, item.session, -item.seq


def _walk(scope: Scope, asked: Asked, unindexed: list[Found]) -> Plan[list[Found] | None]:
    """Newest first, session by session as they were last active; `None` if too many have to be looked at.

    No message is taken to be newer than the last time its session was active.
    """
    fresh: dict[str, list[Found]] = {}
    for item in unindexed:
        fresh.setdefault(item.session, []).append(item)
    found: list[Found] = []
    walked, bucket = 0, 1 << 60
    while walked < WALK_SESSIONS:
        rows = yield Ask("next_bucket", (scope.tenant, scope.owner, bucket))
        if not rows or rows[0][0] is None:
            return _merged(found)
        bucket = rows[0][0]
        ready = _merged(found)[: asked.wanted]
        if len(ready) == asked.wanted and ready[-1].at_us >= (bucket + 1) * common.BUCKET_US:
            return ready
        for row in (yield Ask("sessions_in_bucket", (scope.tenant, scope.owner, bucket))):
            head, id = Head.of(row[:-1]), row[-1]
            walked += 1
            yield Enter(SessionRef(scope, id))
            ranges = yield from _ranges(head, asked.search)
            indexed = yield from _indexed(id, ranges, asked, timed=True)
            for item in indexed:
                item.at_us = min(item.at_us, head.active_at_us)
            found += _without_doubles(indexed, fresh.get(id, []))
        bucket -= 1
    return None


# -- what is not indexed -------------------------------------------------------


def _unindexed(session: str, head: Head, ranges: Sequence[Range], asked: Asked) -> Plan[list[Found]]:
    """The messages that hold the words among those the index does not know as they are now."""
    keys = yield from _unindexed_keys(head, asked)
    by_strand = {item.strand: item for item in ranges}
    keys = [key for key in keys if _within(key, by_strand)]
    found: list[tuple[Row, list[list[tuple[int, int]]], int]] = []
    for start in range(0, len(keys), SCAN_ROWS):
        listed = jsontext.encode(keys[start : start + SCAN_ROWS])
        for row in (yield Ask("messages_by_keys", (messages.LARGE_BYTES, listed), heavy=True)):
            if asked.takes(row[messages.ROLE], row[messages.CREATED_AT]):
                tokens = asked.tokenize(fold((yield from indexing.text_of(row))))
                places = occurrences(asked.words, tokens)
                if places is not None:
                    found.append((row, places, len(tokens)))
    scores = (yield from _scores(found, asked)) if not asked.search.newest_first else [0.0] * len(found)
    return [
        Found(row[messages.KEY], score, min(row[messages.CREATED_AT], head.active_at_us), session)
        for (row, _, _), score in zip(found, scores, strict=True)
    ]


def _unindexed_keys(head: Head, asked: Asked) -> Plan[list[int]]:
    after = 0
    pending: list[Row] = []
    if asked.on:
        rows = yield Ask("search_progress", (head.incarnation,))
        after = rows[0][0] if rows else 0
        pending = yield Ask("search_pending_of", (head.incarnation, -1))
    keys = {key for (key,) in pending}
    if after + 1 < head.next_seq:
        tail = yield Ask("keys_by_seq", (after, head.next_seq - 1, head.incarnation), heavy=True)
        keys.update(key for key, _ in tail)
    return sorted(keys)


def _scores(found: Sequence[tuple[Row, list[list[tuple[int, int]]], int]], asked: Asked) -> Plan[list[float]]:
    """What the index would give them, nearly: BM25 as FTS5 reckons it, with their own mean length."""
    if not found:
        return []
    weights: list[float] = []
    here = len(found)
    for match in asked.words.weighed:
        holding = total = 0
        if asked.on:
            ((holding, total),) = yield Ask("count_words", (match,), heavy=True)
        weights.append(weight(holding, total, here))
    mean = sum(length for _, _, length in found) / len(found) or 1.0
    return [
        sum(weight * _frequency(len(spots), length / mean) for weight, spots in zip(weights, places, strict=False))
        for _, places, length in found
    ]


def _frequency(count: int, length: float) -> float:
    return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length))


# -- what is shown -------------------------------------------------------------


def _shown(scope: Scope, found: Sequence[Found], asked: Asked) -> Plan[list[Hit]]:
    """Hits as a user sees them, each looked at once more as it is now."""
    by_session: dict[str, list[Found]] = {}
    for item in found:
        by_session.setdefault(item.session, []).append(item)
    hits: dict[tuple[str, int], Hit] = {}
    for session, here in by_session.items():
        keys = [item.key for item in here]
        places = yield from _places(SessionRef(scope, session), keys)
        ask = Ask("messages_by_keys", (messages.LARGE_BYTES, jsontext.encode(keys)), heavy=True)
        listed = yield ask
        rows: dict[int, Row] = {row[messages.KEY]: row for row in listed}
        for item in here:
            if item.key in rows:
                hits[session, item.key] = yield from _hit(item, rows[item.key], places, asked)
    return [hits[item.session, item.key] for item in found if (item.session, item.key) in hits]


class Places(Struct, frozen=True):
    """What of a session says where a hit is: its active path and that one's leaf, and which overlays end where."""

    path: tuple[Range, ...]
    by_strand: dict[int, Range]
    leaf_id: str
    ends: dict[int, list[int]]
    """For each hit that overlays cover on some path, the keys of the places where these end."""


def _places(ref: SessionRef, keys: Sequence[int]) -> Plan[Places]:
    head: Head | None = yield Take(ref)
    if head is None:
        return Places((), {}, "", {})
    path = yield from common.path_to(head.leaf)
    leaf_id = yield from common.last_id(path)
    ends = {key: [item.place for item in over] for key, over in (yield from overlays.over(head, keys)).items()}
    return Places(path, {item.strand: item for item in path}, leaf_id or "", ends)


def _hit(item: Found, row: Row, places: Places, asked: Asked) -> Plan[Hit]:
    on_path, leaf_id, path = _within(item.key, places.by_strand), places.leaf_id, places.path
    if not on_path:
        last = yield Ask("last_in_range", (item.key, key_of(strand_of(item.key), MAX_SEQ)))
        leaf_id = last[0][1]
        path = (Range(strand_of(item.key), item.seq, seq_of(last[0][0])),)
    snippet = snippets.make((yield from indexing.text_of(row)), asked.finder)
    ends = places.ends.get(item.key)
    return Hit(
        session_id=item.session,
        id=row[messages.ID],
        seq=item.seq,
        role=row[messages.ROLE],
        created_at=times.from_us(row[messages.CREATED_AT]),
        snippet=snippet.text,
        highlights=snippet.highlights,
        score=item.score,
        on_path=on_path,
        covered=ends is not None and any(common.on_ranges(end, path) for end in ends),
        leaf_id=leaf_id,
    )
