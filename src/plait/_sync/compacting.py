"""Generated from src/plait/_async/compacting.py by tools/unasync.py: edit that file. Compacting a session: when it is due, reading what it covers, asking the summarizer, laying the overlay on."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from msgspec.structs import asdict, replace

from plait import jsontext
from plait.errors import CompactionError, ConflictError, PlaitError, SessionDeletedError, UsageError
from plait.logic import overlays
from plait.logic.compaction import (
    CompactFunction,
    Folding,
    Head,
    Middle,
    Stretch,
    Tail,
    check_smaller,
    target_tokens,
)
from plait.logic.estimate import Counter, estimate_text
from plait.logic.pacing import BUSY, CHANGED, ELSEWHERE, Policy, Reported, Waiting, hindrance, is_passing, noted
from plait.logic.turns import Units, UnitsBackward
from plait.logic.usage import usage_tokens
from plait.model import (
    COMPACTION_KEY,
    LEAF,
    Appended,
    Change,
    Compacted,
    CompactionState,
    Damaged,
    Json,
    Message,
    Overlay,
    Parent,
    Summary,
    Totals,
)
from plait.pauses import Background, Repeated, call
from plait.store._sync.abilities import overlaying
from plait.store._sync.port import Store
from plait.store.protocol import Path, SessionRef, Span

Compaction = CompactFunction | Callable[[list[Message]], Awaitable[Summary | None] | Summary | None]
ErrorHandler = Callable[[Exception], Awaitable[None] | None]
Reader = Callable[..., Iterator[Message | Damaged]]

log = logging.getLogger("plait")
CLAIM_US: Final = 60 * 1_000_000
"""How long after a sign of life of the process that compacts another may take over;"""
RENEW_SECONDS: Final = 15.0
"""it gives one so often, whatever the summarizer does, unless that is a coroutine which blocks its loop."""
ANCHOR_MESSAGES: Final = 20
"""How many of the newest messages are looked at for the usage that a model reported."""


class _Plan(NamedTuple):
    """What a compaction would do: the answer, the places covered (`None`: none), the seqs around what it reads."""

    answer: Compacted
    span: Span | None = None
    after: int = 0
    before: int | None = None


class Compactor:
    """The compaction of one session, as one handle does it."""

    def __init__(
        self,
        store: Store,
        ref: SessionRef,
        *,
        read: Reader,
        tell: Callable[[Change], Awaitable[None] | None],
        counter: Callable[[], Counter | None],
        prompt: Callable[[], Awaitable[int] | int],
    ) -> None:
        self._store = store
        self._ref = ref
        self._read = read
        self._tell = tell
        self._counter = counter
        self._prompted = prompt
        self._frozen = 0  # what the frozen prompt cost when that was looked at last
        self.function: Compaction | None = None
        self.policy: Policy | None = None
        self.on_error: ErrorHandler | None = None
        self._waiting = Waiting()
        self.tasks = Background()
        self._keeping = Repeated()
        self._claimed: str | None = None
        self._busy = False
        self._warned: set[str] = set()
        self._anchor: Reported | None = None
        self._given: int | None = None  # what instructions and tools cost, as they were given last
        self._noted: bool | None = None  # whether the database has a note of what is waited for; None: not looked yet

    @property
    def state(self) -> CompactionState:
        return self._waiting.state

    def set_up_as(self, other: Compactor) -> None:
        """Compact as another handle of the session does."""
        self.function, self.policy, self.on_error = other.function, other.policy, other.on_error
        self._waiting, self._anchor, self._given = other._waiting, other._anchor, other._given
        self._noted = other._noted

    # -- when ------------------------------------------------------------------

    def appended(self, results: Iterable[Appended]) -> None:
        """Compact if that is due now; called after each append, which stands whatever happens here."""
        inserted = [result.message for result in results if result.inserted and not result.branched]
        policy = self.policy
        if policy is None or not inserted:
            return
        if self.function is None:
            self._warn("compact_after has no effect without on_compaction: session %r is not compacted")
        elif policy.background:
            self.tasks.start(lambda: self._automatic(inserted))
        else:
            self._automatic(inserted)

    def _automatic(self, inserted: list[Message]) -> None:
        if self._busy:  # in a summarizer that appends, or in a task of before
            return
        try:
            totals = self._totals()
            self._note(inserted, totals)
            if self._is_due(totals, 0):
                self._attempt(LEAF, 0)
        except SessionDeletedError as error:
            log.info("session %r is not compacted: %s", self._ref.id, error)
        except Exception as error:
            self._failed(error)

    def _note(self, messages: list[Message], totals: Totals) -> None:
        """Remember the last usage that a model reported, for a policy in terms of its window."""
        if self.policy is None or not self.policy.window:
            return
        after = 0
        for message in reversed(messages):
            reported = _reported_by(message)
            if reported is not None:
                self._anchor = Reported(reported, totals.view_tokens - after, self._given)
                return
            after += message.tokens

    def _size(self, totals: Totals) -> int:
        """The tokens of prompt and view: those reported last and what came after, or what is known of both."""
        anchor = self._reported()
        if anchor is None:
            return totals.view_tokens + self._prompt()
        return max(0, anchor.expects(totals.view_tokens))

    def _beside(self) -> int:
        """What goes to the model beside the view: by what was reported, which says how much that is, or as far as it is known."""
        anchor = self._reported()
        return self._prompt() if anchor is None else max(self._prompt(), anchor.beside)

    def _reported(self) -> Reported | None:
        """What a model reported last, if the policy goes by that."""
        return self._anchor if self.policy is not None and self.policy.window else None

    def _prompt(self) -> int:
        """What goes to the model before the view each time: the frozen prompt, and what the policy says."""
        return self._frozen + (0 if self.policy is None else self.policy.prompt)

    def _totals(self) -> Totals:
        """The session's totals, with a look at what its frozen prompt costs."""
        self._frozen = call(self._prompted)
        return self._store.totals(self._ref)

    def _is_due(self, totals: Totals, more: int) -> bool:
        policy, size = self.policy, self._size(totals)
        if policy is None:
            return False
        shrank = size < self._waiting.stood  # messages were deleted, or another path is the active one
        if shrank and policy.has_room(size):
            self._goes_on()
        if not policy.is_due(size + more):
            return False
        self._restore(size)
        return self._waiting.is_over(size, totals.view_messages)

    def if_needed(self, instructions: object, tools: object, reserved_tokens: int) -> Compacted:
        """Compact if the input of a model's call would be too large."""
        if self.policy is None or self.function is None:
            raise UsageError(
                "compact_if_needed needs on_compaction(...) and compact_after(...): say what to do and when"
            )
        if self._busy:
            return Compacted(None, BUSY)
        try:
            totals = self._totals()
            if self._anchor is None and self.policy.window:
                self._find_anchor(totals)
            more = reserved_tokens + self._not_counted(instructions, tools)
            if not self._is_due(totals, more):
                paused = self._waiting.paused if self.policy.is_due(self._size(totals) + more) else None
                return Compacted(None, paused or "the view is small enough")
            return self._attempt(LEAF, more)
        except Exception as error:
            self._failed(error)
            return Compacted(None, str(error))

    def _not_counted(self, instructions: object, tools: object) -> int:
        """What of instructions and tools is in neither the prompt nor what a model reported."""
        given, anchor = _cost(tools) + _cost(instructions), self._reported()
        self._given = given
        if anchor is None:
            return given - (0 if instructions is None else self._prompt())
        return max(0, given - (anchor.tokens if anchor.given is None else anchor.given))

    def _find_anchor(self, totals: Totals) -> None:
        """Look among the newest messages for what a model reported since the last compaction."""
        path = self._path(LEAF)
        compacted = [laid.overlay.created_at for laid in path.laid if laid.overlay.kind == "compaction"] if path else []
        after = seen = 0
        for message in self._read(path, newest_first=True):
            if isinstance(message, Damaged) or message.overlay is not None:
                continue
            if seen == ANCHOR_MESSAGES or any(message.created_at <= at for at in compacted):
                return
            reported = _reported_by(message)
            if reported is not None:
                self._anchor = Reported(reported, totals.view_tokens - after, None)
                return
            after += message.tokens
            seen += 1

    # -- progress --------------------------------------------------------------

    def _attempt(self, leaf: Parent, more: int) -> Compacted:
        """Compact because the limit says so, and wait with the next time if too little was won."""
        done = self._once(leaf, self._beside() + more)
        if is_passing(done):
            return done
        totals = self._totals()
        policy, size = self.policy, self._size(totals) + more
        why = hindrance(done, policy, size)
        if why is None:
            self._goes_on()
        else:
            self._wait(why, totals, more)
        return done

    def _wait(self, why: str, totals: Totals, more: int) -> None:
        """Wait with the next attempt until the view has grown by more than the last time."""
        if self.policy is None:  # taken back meanwhile
            return
        size = self._size(totals)
        self._waiting = self._waiting.longer(why, self.policy, size, more, totals.view_messages)
        self._warn(f"session %r is near or over its limit and compaction waits: {why}")
        self._note_down(asdict(self._waiting))

    def _goes_on(self) -> None:
        """There is no reason to wait any more."""
        self._restore(0)  # to know whether anything is noted
        self._waiting = Waiting()
        self._warned.clear()
        if self._noted:
            self._note_down(None)

    def _note_down(self, note: Json | None) -> None:
        """Let handles to come, in whatever process, wait as this one does; without that each would try once."""
        try:
            metadata = {COMPACTION_KEY: note}
            self._store.put_session(self._ref, created_at_us=_now_us(), create="never", metadata=metadata)
        except PlaitError as error:
            log.info("session %r: what compaction waits for could not be noted: %s", self._ref.id, error)
        else:
            self._noted = note is not None

    def _restore(self, size: int) -> None:
        """Take over what another handle waits for, unless the view has become smaller since."""
        if self._noted is not None:
            return
        info = self._store.info(self._ref)
        found = noted(info.metadata) if info is not None else Waiting()
        self._noted = found.paused is not None
        if size >= found.stood:
            self._waiting = found

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            log.warning(text, self._ref.id)

    def _failed(self, error: Exception) -> None:
        """Say that an automatic compaction failed, to everybody, and wait with the next."""
        log.warning("session %r could not be compacted: %s", self._ref.id, error, exc_info=error)
        try:
            self._wait(f"it failed: {error}", self._totals(), 0)
            call(self._tell, Change("error", self._ref.id, error=error, during="compact"))
            if self.on_error is not None:
                call(self.on_error, error)
        except Exception:
            log.exception("on_compaction_error failed on session %r", self._ref.id)

    # -- doing it --------------------------------------------------------------

    def compact(self, leaf: Parent, *, dry_run: bool = False) -> Compacted:
        """Compact the path to `leaf`, one compaction of a session at a time, whichever process does it."""
        if self.function is None:
            raise UsageError("there is nothing to compact with: pass a function to on_compaction first")
        if dry_run:
            return self._planned(leaf)
        done = self._once(leaf, self._beside())
        if done.overlay is not None:
            self._goes_on()
        return done

    def _once(self, leaf: Parent, beside: int) -> Compacted:
        if self._busy:
            return Compacted(None, BUSY)
        self._busy = True
        token = secrets.token_hex(8)
        try:
            if not self._claim(token):
                return Compacted(None, ELSEWHERE)
            self._claimed = token
            self._keeping.start(lambda: self._keep(token), RENEW_SECONDS)
            try:
                return self._compact(leaf, beside)
            finally:
                self.release()
        finally:
            self._busy = False

    def _claim(self, token: str) -> bool:
        until = _now_us() + CLAIM_US
        return overlaying(self._store).claim_compaction(self._ref, token, until_us=until)

    def _keep(self, token: str) -> None:
        """Keep the claim of a compaction that goes on."""
        if self._claimed == token:
            self._claim(token)

    def release(self) -> None:
        """Let go of the claim, so that another may compact; what goes on without it can still be given up."""
        token, self._claimed = self._claimed, None
        self._keeping.stop()
        if token is None:
            return
        try:
            overlaying(self._store).release_compaction(self._ref, token)
        except SessionDeletedError:
            pass
        except PlaitError as error:  # it runs out by itself; what was compacted stands
            log.warning("the claim to compact session %r could not be given back: %s", self._ref.id, error)

    def _path(self, leaf: Parent) -> Path | None:
        return self._store.path(self._ref, leaf)

    def _compact(self, leaf: Parent, beside: int) -> Compacted:
        path = self._path(leaf)
        if path is None or not path.ranges:
            return Compacted(None, "there are no messages")
        try:
            plan, text = self._summarized(path, beside)
            if text is None or plan.span is None:
                return plan.answer
            check_smaller(text, plan.answer.covered_tokens)
            return self._lay(plan.answer, plan.span, text)
        except SessionDeletedError:
            return Compacted(None, f"{CHANGED}: the session was cleared or deleted")
        except CompactionError as error:
            error.session_id = self._ref.id
            raise

    def _ask(self, *given: object) -> Any:
        """Call the user's function; whatever it raises is its failure."""
        function = self.function
        try:
            called = function.summarize if isinstance(function, CompactFunction) else function
            assert called is not None
            return call(called, *given)
        except CompactionError:
            raise
        except Exception as error:
            raise CompactionError(f"the summarizer failed: {type(error).__name__}: {error}") from error

    def _lay(self, plan: Compacted, span: Span, text: str) -> Compacted:
        """Add the summary, unless what it covers was changed meanwhile."""
        assert plan.from_id is not None and plan.to_id is not None
        ends = (plan.from_id, plan.to_id)
        new = overlays.new(secrets.token_hex(16), ends, text, "compaction", _now_us(), self._counter())
        try:
            added = overlaying(self._store).add_overlay(self._ref, new, span=span, change="compact")
        except SessionDeletedError:
            raise
        except ConflictError as error:
            return Compacted(None, f"{CHANGED}: {error}", *ends, calls=plan.calls)
        overlay: Overlay | None = added.overlay if added.inserted else None
        if overlay is not None:
            call(self._tell, Change("compact", self._ref.id, overlay=overlay, ids=(overlay.id,)))
        reason = "compacted" if overlay else "a newer overlay covers this already"
        covered = (plan.from_id, plan.to_id, plan.messages, plan.covered_tokens, plan.calls)
        return Compacted(overlay, reason, *covered)

    def _summarized(self, path: Path, beside: int) -> tuple[_Plan, str | None]:
        """What is covered, and its summary (`None`: nothing is to be done)."""
        if not isinstance(self.function, CompactFunction):
            return self._custom(path)
        plan = self._bounds(path, self.function, beside)
        if plan.span is None:
            return plan, None
        covered = plan.answer.covered_tokens
        room = self.policy.room(beside) if self.policy else None
        folding = Folding(self.function, target_tokens(covered, room, self.function.max_input_tokens))
        for message in self._read(path, after_seq=plan.after, before_seq=plan.before):
            for prompt in folding.add(message):
                folding.took(self._ask(prompt))
        for prompt in folding.end():
            folding.took(self._ask(prompt))
        return plan._replace(answer=replace(plan.answer, calls=folding.calls)), folding.summary

    def _custom(self, path: Path) -> tuple[_Plan, str | None]:
        """What a function of the user's own wants to cover."""
        messages = [message for message in self._read(path) if isinstance(message, Message)]
        answer = self._ask(messages)
        if answer is None:
            return _Plan(Compacted(None, "the function found nothing to compact")), None
        if not isinstance(answer, Summary):
            raise CompactionError(f"the function answered {type(answer).__name__}, not a plait.Summary or None")
        places = {message.id: n for n, message in enumerate(messages) if message.overlay is None}
        first, last = places.get(answer.from_id), places.get(answer.to_id)
        if first is None or last is None or first > last:
            raise CompactionError(
                f"the function wants to cover {answer.from_id!r} to {answer.to_id!r}; "
                "these must be ids of messages of the history it was given, in order"
            )
        if not isinstance(answer.text, str) or not answer.text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CompactionError("the function answered no summary")
        covered = messages[first : last + 1]
        tokens = sum(message.tokens for message in covered)
        plan = Compacted(None, "", answer.from_id, answer.to_id, len(covered), tokens, 1)
        span = Span(path, covered[0].seq, covered[-1].seq)
        return self._unless_crossing(_Plan(plan, span)), answer.text

    def _planned(self, leaf: Parent) -> Compacted:
        path = self._path(leaf)
        if path is None or not path.ranges:
            return Compacted(None, "there are no messages")
        if not isinstance(self.function, CompactFunction):
            raise UsageError(
                "only what compact_function made can say what it would cover; this is a function of your own"
            )
        return (self._bounds(path, self.function, self._beside())).answer

    def _bounds(self, path: Path, function: CompactFunction, beside: int) -> _Plan:
        """What lies between the head and the tail, if so much goes to the model beside the view."""
        keep = function.keep_recent_tokens
        if self.policy is not None:
            keep = min(keep, self.policy.room(beside) // 2)
        after = self._head(path, function.protect_head)
        before = self._tail(path, keep, function.min_tail)
        most = self._middle(path, after, before)
        if most is None or most.first is None or most.last is None:
            return _Plan(Compacted(None, "nothing but what has to stay, and what is summarized already"))
        (from_id, from_seq), (to_id, to_seq) = _end(most.first, first=True), _end(most.last, first=False)
        answer = Compacted(None, "would be compacted", from_id, to_id, most.messages, most.tokens)
        return self._unless_crossing(_Plan(answer, Span(path, from_seq, to_seq), most.after, most.before))

    def _unless_crossing(self, plan: _Plan) -> _Plan:
        """The plan, or one of nothing if an overlay, such as one of another branch, is in the way."""
        assert plan.span is not None
        other = overlaying(self._store).crossing(self._ref, plan.span)
        if other is None:
            return plan
        why = (
            f"overlay {other.id!r}, which covers seq {other.from_seq} to {other.to_seq}, "
            "is partly inside and partly outside of what would be summarized; remove it first"
        )
        return _Plan(Compacted(None, why, plan.answer.from_id, plan.answer.to_id, calls=plan.answer.calls))

    def _head(self, path: Path, protect: int) -> int:
        head, reader = Head(protect), Units()
        for message in self._read(path):
            for unit in reader.feed(message):
                if not head.take(unit):
                    return head.last_seq
        for unit in reader.end():
            if not head.take(unit):
                break
        return head.last_seq

    def _middle(self, path: Path, after: int, before: int | None) -> Stretch | None:
        if before is not None and after + 1 >= before:
            return None
        middle, reader = Middle(after, before), Units()
        for message in self._read(path, after_seq=after, before_seq=before):
            for unit in reader.feed(message):
                middle.take(unit)
        for unit in reader.end():
            middle.take(unit)
        return middle.most()

    def _tail(self, path: Path, keep: int, least: int) -> int | None:
        tail, reader = Tail(keep, least), UnitsBackward()
        for message in self._read(path, newest_first=True):
            for unit in reader.feed(message):
                if not tail.take(unit):
                    return tail.first_seq
        for unit in reader.end():
            if not tail.take(unit):
                break
        return tail.first_seq


def _end(message: Message, *, first: bool) -> tuple[str, int]:
    """The id and seq that a range begins or ends with, if that is a summary the end of what it covers."""
    overlay = message.overlay
    if overlay is None:
        return message.id, message.seq
    return (overlay.from_id, overlay.from_seq) if first else (overlay.to_id, overlay.to_seq)


def _reported_by(message: Message) -> int | None:
    """How many tokens a conversation had up to a message, if a model said so with it."""
    return usage_tokens(message.usage) if message.role == "assistant" else None


def _now_us() -> int:
    return time.time_ns() // 1000


def _cost(value: object) -> int:
    """The tokens of instructions or of the definitions of tools."""
    if value is None:
        return 0
    try:
        return estimate_text(value if isinstance(value, str) else jsontext.encode(value))
    except (TypeError, ValueError, RecursionError):
        return estimate_text(str(value))
