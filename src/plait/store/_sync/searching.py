"""Generated from src/plait/store/_async/searching.py by tools/unasync.py: edit that file. Searching on a driver: the index is brought up to date behind the writes, then asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from plait.errors import StoreBusyError, StoreUnavailableError, UnsupportedError
from plait.logic.words import Tokenize, Words, parse
from plait.model import Hit, ValueHit
from plait.pauses import aside, aside_if
from plait.store.driver import Driver
from plait.store.plan import PlanFactory
from plait.store.plans import indexing, search, value_search
from plait.store.protocol import Scope, Search, SessionRef

log = logging.getLogger("plait")
T = TypeVar("T")
Progress = Callable[[int, int], None]

LONG_QUERY: Final = 4 << 10
"""Taking a query of so many characters apart takes some milliseconds, which an event loop does not wait for."""


def find(driver: Driver, within: SessionRef | Scope, asked: Search, now_us: int) -> list[Hit]:
    """What was committed when this was called and holds the words.

    Where the index cannot be written, what it lacks is read and compared.
    """
    tokenize = _tokenizer(driver)
    words = _words(asked.query, tokenize)
    ask = partial(search.search, within, asked, words, tokenize)
    found: list[Hit] | None = None
    if not getattr(driver, "read_only", False):
        found = _read(driver, partial(ask, if_complete=True), words)
        if found is None:
            try:
                catch_up(driver, within, now_us)
            except (StoreBusyError, StoreUnavailableError) as error:
                log.info("the search index could not be brought up to date, its gap is read instead: %s", error)
    if found is None:
        found = _read(driver, ask, words)
    return found or []


def _words(query: str, tokenize: Tokenize) -> Words:
    return aside_if(lambda: len(query) > LONG_QUERY, partial(parse, query, tokenize))


def _read(driver: Driver, ask: PlanFactory[T], words: Words) -> T:
    """Ask; whoever looks for very many words has each text that may hold them compared with them all."""
    if words.loose or _holds_loop(driver):
        return aside(partial(driver.read, ask))
    return driver.read(ask)


def shown(
    driver: Driver, within: SessionRef | Scope, keys: Sequence[tuple[str, str]], asked: Search
) -> list[Hit]:
    """Messages that somebody else has found, as hits."""
    tokenize = _tokenizer(driver)
    words = _words(asked.query, tokenize)
    return _read(driver, partial(search.hits, within, keys, asked, words, tokenize), words)


def _tokenizer(driver: Driver) -> Tokenize:
    tokenize: Tokenize | None = getattr(driver, "tokenize", None)
    if tokenize is None:
        raise UnsupportedError("this store's driver has no search")
    return tokenize


def catch_up(
    driver: Driver, within: SessionRef | Scope | None, now_us: int, progress: Progress | None = None
) -> int:
    """Index what is not indexed, a bounded transaction at a time; answers how many messages that were."""
    behind = driver.read(partial(indexing.behind, within))
    if behind is None:
        driver.write(partial(indexing.switch_on, now_us))
        behind = driver.read(partial(indexing.behind, within)) or []
    apart: Callable[[str], str] | None = getattr(driver, "lexemes", None)
    total = 0
    for ref in behind:
        more = True
        while more:
            ready = None if apart is None else aside(partial(_ready, driver, ref, apart))
            done, more = _index(driver, partial(indexing.catch_up, ref, ready), indexing.STEP_BYTES)
            total += done
            if progress is not None:
                progress(total, driver.read(indexing.left))
    return total


def _ready(driver: Driver, ref: SessionRef, apart: Callable[[str], str]) -> indexing.Ready:
    """What is to be indexed next, its words taken out while nobody waits for the session."""
    version, texts = driver.read(partial(indexing.upcoming, ref))
    return indexing.Ready(version, {key: apart(text) for key, text in texts})


def build(driver: Driver, now_us: int, *, rebuild: bool, progress: Progress | None) -> int:
    """Index everything; with `rebuild` after emptying the index."""
    _tokenizer(driver)
    if rebuild:
        driver.write(partial(indexing.start_anew, now_us))
    total = catch_up(driver, None, now_us, progress)
    while not _index(driver, partial(indexing.drain, indexing.STEP_ROWS)):
        pass
    return total


def _index(driver: Driver, plan: PlanFactory[T], weight: int = 0) -> T:
    """Write to the index."""
    if _holds_loop(driver):
        return aside(partial(driver.write, plan, weight))
    return driver.write(plan, weight)


def _holds_loop(driver: Driver) -> bool:
    """Whether a driver works plans out on the event loop that asks: taking long texts apart would hold it."""
    return getattr(driver, "works_on_loop", False)


def find_values(driver: Driver, session: SessionRef, label: str, query: str, limit: int) -> list[ValueHit]:
    """The values of a label that hold the words; where the index cannot be written, what it lacks is read."""
    tokenize = _tokenizer(driver)
    if not getattr(driver, "read_only", False):
        try:
            _index_values(driver, session)
        except (StoreBusyError, StoreUnavailableError) as error:
            log.info("the index of values could not be brought up to date, its gap is read instead: %s", error)
    words = _words(query, tokenize)
    return _read(driver, partial(value_search.search, session, label, words, limit, tokenize), words)


def _index_values(driver: Driver, session: SessionRef) -> None:
    more = driver.read(partial(value_search.behind, session))
    while more:
        more = _index(driver, partial(value_search.catch_up, session), value_search.STEP_BYTES)


def cleanse(driver: Driver, now_us: int) -> None:
    """Make what was deleted unfindable in the index's own pages, as far as an index was ever asked for."""
    if driver.read(partial(indexing.behind, Scope())) is not None:
        catch_up(driver, None, now_us)
        while not _index(driver, partial(indexing.drain, indexing.STEP_ROWS)):
            pass
        driver.write(indexing.merge)
    for session in driver.read(value_search.indexed):
        _index_values(driver, session)
    while not driver.write(partial(value_search.drain, value_search.STEP_ROWS)):
        pass
    driver.write(value_search.cleanse)
