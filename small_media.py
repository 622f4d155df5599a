"""A store that takes no payload over a limit."""

import plait


class SmallMedia:
    def __init__(self, store, *, limit_bytes):
        self._store = store
        self._limit_bytes = limit_bytes

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, session, messages, **options):
        self._check(messages)
        return self._store.append(session, messages, **options)

    def update(self, session, message):
        self._check([message])
        return self._store.update(session, message)

    def _check(self, messages):
        for message in messages:
            for media in message.media:
                if media.size > self._limit_bytes:
                    raise plait.LimitError(f"message {message.id!r} has media of {media.size} bytes; the limit is {self._limit_bytes}")
