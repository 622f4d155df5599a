"""YAML front matter: found at the head of a text, mended where only quotes are missing, read as plain values."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

from plait.errors import UsageError

MAX_FRONT_MATTER_CHARS: Final = 65_536
_MAX_VALUES: Final = 10_000
_MAX_DEPTH: Final = 64

_OPENING = re.compile(r"\A\ufeff?---[ \t]*(?:\r\n|\n|\r)")
_CLOSING = re.compile(r"(?<![^\r\n])---[ \t]*(?:\r\n|\n|\r|\Z)")
_UNQUOTED = re.compile(
    r"""^(?P<key>[ \t]*[\w.-]+:[ \t]+)(?P<value>[^\s'"\[{|>&*!#][^\r\n]*?(?::[ \t][^\r\n]*|:))(?P<end>[ \t]*\r?)$""",
    re.MULTILINE,
)
_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, object]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class FrontMatterError(ValueError):
    """Why a text's front matter cannot be read."""


class Scalar(str):
    """A value as it is written; `value` is what it means."""

    value: object

    @classmethod
    def of(cls, text: str, value: object) -> Scalar:
        """The text of a scalar with its meaning."""
        made = cls(text)
        made.value = value
        return made


def split(text: str) -> tuple[str, str]:
    """The YAML between the first two lines of three dashes, and what comes after; `FrontMatterError` without."""
    opening = _OPENING.match(text)
    if opening is None:
        raise FrontMatterError("the file must begin with front matter: YAML between two lines of ---")
    closing = _CLOSING.search(text, opening.end())
    if closing is None:
        raise FrontMatterError("the front matter is not closed by a line of ---")
    if closing.start() - opening.end() > MAX_FRONT_MATTER_CHARS:
        raise FrontMatterError(f"the front matter is longer than {MAX_FRONT_MATTER_CHARS:,} characters")
    return text[opening.end() : closing.start()], text[closing.end() :]


def read(yaml_text: str) -> tuple[dict[str, Any], list[str]]:
    """The fields of front matter, and what was wrong but could be mended.

    Scalars come as `Scalar`: their text as it is written, so that a version `1.10` stays one. Text that is broken
    only because a value holds an unquoted `: ` is read as if that value were quoted.
    """
    try:
        return _fields(yaml_text)
    except FrontMatterError as first:
        mended = _UNQUOTED.sub(_quoted, yaml_text)
        if mended == yaml_text:
            raise
        try:
            fields, warnings = _fields(mended)
        except FrontMatterError:
            raise first from None
    return fields, ["a value that holds `: ` was not quoted; it was read as if it were", *warnings]


def meaning(value: Any) -> Any:
    """A value of the front matter as JSON has it: numbers, `true`, `false` and `null` by YAML's core rules."""
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, dict):
        return {str(key): meaning(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [meaning(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _quoted(found: re.Match[str]) -> str:
    return f"{found['key']}'{found['value'].replace(chr(39), chr(39) * 2)}'{found['end']}"


def _fields(yaml_text: str) -> tuple[dict[str, Any], list[str]]:
    yaml = _yaml()
    try:
        # Composed, not constructed: no tag makes an object, and a scalar keeps the text it was written with.
        root: Any = yaml.compose(yaml_text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 2})"  # of the file: its first line is dashes
        raise FrontMatterError(
            f"the front matter is not YAML: {getattr(error, 'problem', None) or error}{where}"
        ) from None
    except RecursionError:
        raise FrontMatterError("the front matter is nested too deeply") from None
    if not isinstance(root, yaml.MappingNode):
        raise FrontMatterError("the front matter must be fields, such as `name: pdf-forms`")
    reading = _Reading(yaml)
    fields: dict[str, Any] = reading.value(root, 0)
    return fields, reading.warnings


class _Reading:
    """One walk over the nodes; what aliases repeat is counted each time, so that no few lines become a million."""

    def __init__(self, yaml: Any) -> None:
        self.yaml = yaml
        self.left = _MAX_VALUES
        self.warnings: list[str] = []

    def value(self, node: Any, depth: int) -> Any:
        self.left -= 1
        if self.left < 0 or depth > _MAX_DEPTH:
            raise FrontMatterError("the front matter holds too many values or is nested too deeply")
        if isinstance(node, self.yaml.ScalarNode):
            text = str(node.value)
            return Scalar.of(text, _meaning(text) if node.style is None else text)
        if isinstance(node, self.yaml.SequenceNode):
            return [self.value(one, depth + 1) for one in node.value]
        return self._mapping(node, depth)

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.value(key_node, depth + 1)
            if not isinstance(key, Scalar):
                self.warnings.append("a key that is not text was left out")
                continue
            if key in fields:
                self.warnings.append(f"the field {key[:80]!r} is given twice; the last one counts")
            fields[str(key)] = self.value(value_node, depth + 1)
        return fields


def _meaning(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None or len(text) > 300:
        return text
    if number["fraction"] is None and number["exponent"] is None:
        return int(text)
    value = float(text)
    return value if abs(value) != float("inf") else text


def _yaml() -> Any:
    try:
        return import_module("yaml")
    except ImportError:
        raise UsageError("skills need PyYAML to read SKILL.md; install plait[files]") from None
