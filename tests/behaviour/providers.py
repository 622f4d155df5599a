"""Providers of context for tests, as an application would write them; they note what is asked of them."""

from __future__ import annotations


class Fixed:
    """A read-only block."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.asked: list[str] = []

    def get(self) -> str | None:
        self.asked.append("get")
        return self.text


class Labelled(Fixed):
    """One that is told its label."""

    label = ""

    def init(self, label: str) -> None:
        self.asked.append(f"init {label}")
        self.label = label

    def get(self) -> str | None:
        self.asked.append("get")
        return f"I serve {self.label}"


class Notes(Fixed):
    """A writable block."""

    def set(self, content: str) -> None:
        self.asked.append("set")
        self.text = content


class LabelledNotes(Labelled):
    def set(self, content: str) -> None:
        self.asked.append("set")


class Pile:
    """A searchable block, written under keys."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.labels: list[str] = []

    def init(self, label: str) -> None:
        self.labels.append(label)

    def get(self) -> str | None:
        return f"{len(self.entries)} things" if self.entries else None

    def search(self, query: str) -> str | None:
        found = [text for text in self.entries.values() if query in text]
        return "\n".join(found) or None

    def set(self, key: str, content: str, description: str | None) -> None:
        self.entries[key] = content


class Reading:
    """A searchable block that nobody writes."""

    def get(self) -> str | None:
        return "Documentation"

    def search(self, query: str) -> str | None:
        return f"about {query}" if query == "tea" else None


class Books:
    """Documents that are loaded by key."""

    def __init__(self, **books: str) -> None:
        self.books = dict(books)
        self.about: dict[str, str | None] = {}

    def get(self) -> str | None:
        return "\n".join(f"- {key}: {self.about.get(key) or 'a book'}" for key in self.books) or None

    def load(self, key: str) -> str | None:
        return self.books.get(key)

    def set(self, key: str, content: str, description: str | None) -> None:
        self.books[key] = content
        self.about[key] = description


class Manual:
    """Documents that nobody writes."""

    def get(self) -> str | None:
        return "- pump: how to pump"

    def load(self, key: str) -> str | None:
        return "Push the handle." if key == "pump" else None


class Coroutines:
    """All of it with coroutine methods."""

    def __init__(self) -> None:
        self.text = "awaited"
        self.label = ""

    async def init(self, label: str) -> None:
        self.label = label

    async def get(self) -> str | None:
        return self.text

    async def set(self, content: str) -> None:
        self.text = content


class Failing:
    """A block whose source is out of order."""

    def get(self) -> str | None:
        raise OSError("the disk is on fire")

    def set(self, content: str) -> None:
        raise OSError("the disk is on fire")


class Odd:
    """A block whose source answers something else."""

    def get(self) -> object:
        return 5
