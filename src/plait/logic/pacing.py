"""When a session is compacted by itself, how much of it may stay, and how long it waits where that did not help. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, ValidationError, convert

from plait.errors import UsageError
from plait.logic import arguments
from plait.model import COMPACTION_KEY, Compacted, CompactionState, Json

STEP: Final = 10
"""One that failed or won too little is tried again when the view has grown by a tenth of the limit, then twice that,"""
PATIENCE: Final = 16
"""and, where nothing brought it under the limit, by a message, then two, four, up to so many."""
ROOM: Final = 5
"""What leaves less than a fifth of the limit free has won too little; the limit is exceeded by no more because of that."""
OVER: Final = "what has to stay is over the limit by itself"
TIGHT: Final = "what has to stay leaves little room below the limit"
BUSY: Final = "this session is being compacted"
ELSEWHERE: Final = "another process is compacting this session"
CHANGED: Final = "what was summarized changed meanwhile"


class Policy(Struct, frozen=True):
    """When a session is compacted by itself; `policy` makes one.

    A view of more than `limit` tokens is, or one that comes to it with what is `reserved` if the limit is that of a
    model's `window`; `most` is never to be exceeded because nothing was won. `prompt` goes before the view each time.
    """

    limit: int
    most: int
    window: bool
    reserved: int
    prompt: int
    background: bool

    def is_due(self, tokens: int) -> bool:
        """Whether a view of so many tokens is to be compacted: over the limit, or up to the trigger of a window."""
        return tokens + self.reserved >= self.limit if self.window else tokens > self.limit

    def room(self, beside: int) -> int:
        """What is left for the conversation if so much goes to the model beside it."""
        return max(0, self.limit - self.reserved - beside)

    def can_stay_below(self, tokens: int) -> bool:
        """Whether so many tokens are below what is never to be exceeded: the limit, or the window if that is known."""
        return tokens < self.most if self.window else not self.is_due(tokens)

    def has_room(self, tokens: int) -> bool:
        """Whether a view of so many tokens can grow for a while before it is to be compacted."""
        return not self.is_due(tokens + self.limit // ROOM)


def policy(
    tokens: int | None,
    window_tokens: int | None,
    trigger_ratio: float,
    reserved_tokens: int,
    prompt_tokens: int,
    background: bool,
) -> Policy | None:
    """A policy of these numbers, `None` for none; `UsageError` for numbers that make no sense."""
    if tokens is None and window_tokens is None:
        return None
    if tokens is not None and window_tokens is not None:
        raise UsageError("give tokens or window_tokens, not both")
    tokens = arguments.maybe(arguments.number, "tokens", tokens)
    if window_tokens is not None:
        window_tokens = arguments.number("window_tokens", window_tokens, least=1)
    reserved_tokens = arguments.number("reserved_tokens", reserved_tokens)
    if not isinstance(trigger_ratio, int | float) or not 0 < trigger_ratio <= 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise arguments.refusal("trigger_ratio", "a number above 0 and at most 1", trigger_ratio)
    prompt_tokens = arguments.number("prompt_tokens", prompt_tokens)
    background = arguments.flag("background", background)
    if window_tokens is not None and reserved_tokens >= window_tokens * trigger_ratio:
        raise UsageError(
            f"reserved_tokens ({reserved_tokens:,}) must be less than trigger_ratio of window_tokens "
            f"({window_tokens * trigger_ratio:,.0f}): nothing would be left for the conversation"
        )
    limit = int(window_tokens * trigger_ratio) if window_tokens is not None else tokens or 0
    most = limit + limit // ROOM
    if window_tokens is not None:
        most = min(most, window_tokens - reserved_tokens)
    return Policy(limit, most, window_tokens is not None, reserved_tokens, prompt_tokens, background)


class Reported(NamedTuple):
    """What a model reported: the tokens of its input and answer, the view's estimate then, what it was known to be given."""

    tokens: int
    view: int
    given: int | None

    @property
    def beside(self) -> int:
        """How much of it was not the view, as far as that was estimated."""
        return self.tokens - self.view

    def expects(self, view: int) -> int:
        """What the model would report of a view of so many estimated tokens.

        What is added counts as estimated. What is taken away does too, for what goes beside the view
        stays; but where the estimate was the larger number, by no more than its share of what was reported.
        """
        if view < self.view and self.tokens < self.view:
            return self.tokens * view // self.view
        return self.tokens + view - self.view


class Waiting(CompactionState, frozen=True):
    """What a session's compaction waits for, with the size of the view when the waiting began."""

    stood: int = 0

    @property
    def state(self) -> CompactionState:
        return CompactionState(self.paused, self.resumes_above_tokens, self.attempts, self.resumes_above_messages)

    def is_over(self, tokens: int, messages: int) -> bool:
        """Whether a view of so many tokens and messages has grown enough to try again."""
        enough = self.resumes_above_tokens is None or tokens > self.resumes_above_tokens
        return enough and (self.resumes_above_messages is None or messages > self.resumes_above_messages)

    def longer(self, why: str, policy: Policy, tokens: int, more: int, messages: int) -> Waiting:
        """Wait until a view of so many tokens and messages has grown by more than the last time; `more` goes beside it."""
        doubled = 1 << min(self.attempts, STEP)
        above = tokens + max(1, policy.limit * min(doubled, STEP) // STEP)
        count: int | None = messages + min(doubled, PATIENCE) - 1
        if policy.can_stay_below(tokens + more):  # so that comes first
            above, count = max(tokens, min(above, policy.most - more)), None
        return Waiting(why, above, self.attempts + 1, count, tokens)


def is_passing(done: Compacted) -> bool:
    """Whether nothing was compacted, for a reason that says nothing about the next attempt."""
    return done.overlay is None and done.reason.startswith((BUSY, ELSEWHERE, CHANGED))


def hindrance(done: Compacted, policy: Policy | None, tokens: int) -> str | None:
    """Why the next compaction has to wait after one that left a view of so many tokens; `None`: it need not."""
    if done.overlay is None:
        return done.reason
    if policy is None or policy.has_room(tokens):
        return None
    return OVER if policy.is_due(tokens) else TIGHT


def noted(metadata: Json) -> Waiting:
    """What a session's metadata says that its compaction waits for."""
    try:
        return convert(metadata.get(COMPACTION_KEY), Waiting)
    except ValidationError:  # nothing is noted, or somebody else wrote it
        return Waiting()
