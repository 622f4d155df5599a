"""An Agent Skill read from its `SKILL.md`, by the rules of agentskills.io: bent rules are warnings, few reject."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from plait import jsontext
from plait.providers import front_matter
from plait.providers.front_matter import FrontMatterError, Scalar
from plait.providers.paths import is_ignored, is_unprinted, path_problem

SKILL_FILE: Final = "SKILL.md"
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500

Kind = Literal["script", "reference", "asset", "file"]
Encoding = Literal["text", "base64"]

_KINDS: Final[dict[str, Kind]] = {"scripts": "script", "references": "reference", "assets": "asset"}
_HIDING: Final = "disable-model-invocation"
_KNOWN: Final = frozenset(("name", "description", "license", "compatibility", "metadata", "allowed-tools", _HIDING))
_TOOL = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
_TEXT: Final = frozenset(
    [
        "bash",
        "bat",
        "c",
        "cc",
        "cfg",
        "clj",
        "cmake",
        "conf",
        "cpp",
        "cs",
        "css",
        "csv",
        "dart",
        "diff",
        "el",
        "env",
        "ex",
        "exs",
        "fish",
        "go",
        "gradle",
        "graphql",
        "h",
        "hpp",
        "hs",
        "htm",
        "html",
        "ini",
        "ipynb",
        "java",
        "jinja",
        "js",
        "json",
        "jsonl",
        "json5",
        "jsx",
        "jl",
        "kt",
        "less",
        "lisp",
        "lock",
        "log",
        "lua",
        "m",
        "md",
        "mdx",
        "mjs",
        "mts",
        "nim",
        "php",
        "pl",
        "properties",
        "proto",
        "ps1",
        "py",
        "pyi",
        "r",
        "rb",
        "rs",
        "rst",
        "sass",
        "scala",
        "scss",
        "sh",
        "sql",
        "srt",
        "svg",
        "swift",
        "tex",
        "tf",
        "toml",
        "ts",
        "tsv",
        "tsx",
        "txt",
        "vtt",
        "vue",
        "xml",
        "xsd",
        "xsl",
        "yaml",
        "yml",
        "zig",
        "zsh",
    ]
)
_MEDIA: Final = {
    "css": "text/css",
    "csv": "text/csv",
    "gif": "image/gif",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "js": "text/javascript",
    "json": "application/json",
    "md": "text/markdown",
    "mjs": "text/javascript",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "sh": "text/x-shellscript",
    "svg": "image/svg+xml",
    "ts": "text/typescript",
    "tsx": "text/typescript",
    "txt": "text/plain",
    "webp": "image/webp",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}


class SkillResource(Struct, frozen=True):
    """A file that belongs to a skill.

    `kind` goes by the top folder: `scripts/`, `references/`, `assets/`, else `file`. `encoding` is how a model gets
    it, by its extension: `text`, or `base64` (a file that should be text and is not UTF-8 comes as base64 too).
    `size` is in bytes, `None` if the source does not tell.
    """

    path: str
    kind: Kind
    encoding: Encoding
    media_type: str | None = None
    size: int | None = None


class Skill(Struct, frozen=True):
    """An Agent Skill as its source holds it.

    `name` and `description` are what a model chooses by, `body` is what it gets when it does: the Markdown after
    the front matter, trimmed. `hidden` skills (`disable-model-invocation: true`) are not offered to models.
    `metadata` is text by text; `extra` holds the fields that agentskills.io does not name. `directory` and `source`
    say where it is from.
    """

    name: str
    description: str
    body: str
    directory: str = ""
    source: str = ""
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: tuple[str, ...] = ()
    metadata: Mapping[str, str] = {}
    extra: Mapping[str, Any] = {}
    hidden: bool = False
    resources: tuple[SkillResource, ...] = ()


class SkillProblem(Struct, frozen=True):
    """Something about skills that is not as it should be.

    `source` says where, `directory` which skill (empty: the whole source). `rejected` says that the skill or source
    is left out because of it; otherwise it is there all the same.
    """

    source: str
    directory: str
    text: str
    rejected: bool = False

    def __str__(self) -> str:
        where = f"{self.source}: {self.directory}" if self.directory else self.source
        return f"{where}: {self.text}"


def parse_skill(
    text: str, *, directory: str = "", source: str = "", resources: Iterable[SkillResource] = ()
) -> tuple[Skill | None, list[SkillProblem]]:
    """The skill that a `SKILL.md` describes, and what is wrong with it.

    `None` only if the front matter is absent, not closed or not YAML (one with an unquoted `: ` in a value is
    mended), the description is missing, or the name cannot be used at all. Everything else that breaks a rule of
    agentskills.io is a problem that does not reject.
    """
    checking = _Checking(directory, source)
    try:
        yaml_text, body = front_matter.split(text)
        fields, mended = front_matter.read(yaml_text)
        for one in mended:
            checking.warn(one)
        return checking.skill(fields, body.strip(), tuple(resources)), checking.problems
    except FrontMatterError as error:
        return None, [*checking.problems, SkillProblem(source, directory, str(error), rejected=True)]


class _Checking:
    """The rules of the fields; what breaks one is noted, what breaks too much raises."""

    def __init__(self, directory: str, source: str) -> None:
        self.directory = directory
        self.source = source
        self.problems: list[SkillProblem] = []

    def warn(self, text: str) -> None:
        self.problems.append(SkillProblem(self.source, self.directory, text))

    def skill(self, fields: Mapping[str, Any], body: str, resources: tuple[SkillResource, ...]) -> Skill:
        metadata = self._metadata(fields.get("metadata"))
        hiding = (fields.get(_HIDING), metadata.get(_HIDING))
        return Skill(
            name=self._name(fields.get("name")),
            description=self._description(fields.get("description")),
            body=body,
            directory=self.directory,
            source=self.source,
            license=self._text("license", fields.get("license")),
            compatibility=self._compatibility(fields.get("compatibility")),
            allowed_tools=self._tools(fields.get("allowed-tools")),
            metadata=metadata,
            extra={key: front_matter.meaning(value) for key, value in fields.items() if key not in _KNOWN},
            hidden=any(isinstance(value, str) and value.strip().casefold() == "true" for value in hiding),
            resources=resources,
        )

    def _name(self, value: object) -> str:
        if not isinstance(value, Scalar):
            raise FrontMatterError("the front matter needs a name that is text")
        name = unicodedata.normalize("NFKC", value).strip()
        if not name or any(is_unprinted(char) or char in "/\\" for char in name):
            raise FrontMatterError(f"the name {str(value)[:80]!r} cannot be used")
        for broken in _name_rules(name, self.directory):
            self.warn(f"the name {name[:80]!r} {broken}")
        return name

    def _description(self, value: object) -> str:
        description = value.strip() if isinstance(value, Scalar) else ""
        if not description:
            raise FrontMatterError("the front matter needs a description: what the skill does, and when to use it")
        if len(description) > MAX_DESCRIPTION:
            self.warn(f"the description has {len(description):,} characters, more than {MAX_DESCRIPTION:,}")
        return description

    def _compatibility(self, value: object) -> str | None:
        text = self._text("compatibility", value)
        if text is not None and not 1 <= len(text) <= MAX_COMPATIBILITY:
            self.warn(f"compatibility has {len(text):,} characters, not 1 to {MAX_COMPATIBILITY}")
        return text

    def _text(self, field: str, value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, Scalar):
            return value.strip()
        self.warn(f"{field} must be text; it was left out")
        return None

    def _metadata(self, value: Any) -> dict[str, str]:
        if value is None or isinstance(value, Scalar):
            if value:
                self.warn("metadata must be fields; it was left out")
            return {}
        if not isinstance(value, dict):
            self.warn("metadata must be fields; it was left out")
            return {}
        return {key: self._metadata_text(key, one) for key, one in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def _metadata_text(self, key: str, value: Any) -> str:
        if isinstance(value, Scalar):
            return str(value)
        self.warn(f"metadata {key[:80]!r} must be text; it was kept as JSON")
        return jsontext.encode(front_matter.meaning(value))

    def _tools(self, value: Any) -> tuple[str, ...]:
        if value is None:
            return ()
        if isinstance(value, Scalar):
            return tuple(_TOOL.findall(value))
        if isinstance(value, list) and all(isinstance(one, Scalar) for one in value):  # pyright: ignore[reportUnknownVariableType]
            return tuple(str(one).strip() for one in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        self.warn("allowed-tools must be names with blanks between them, or a list of names; it was left out")
        return ()


def _name_rules(name: str, directory: str) -> Iterable[str]:
    """The rules of agentskills.io that a usable name breaks."""
    if len(name) > MAX_NAME:
        yield f"has {len(name):,} characters, more than {MAX_NAME}"
    if any(not char.isalnum() and char != "-" for char in name) or name != name.lower():
        yield "must be lower-case letters, digits and hyphens"
    if name[0] == "-" or name[-1] == "-" or "--" in name:
        yield "must not begin or end with a hyphen or hold two in a row"
    if directory and name != unicodedata.normalize("NFKC", directory):
        yield f"is not that of its directory, {directory[:80]!r}"


def resource_problem(path: object) -> str | None:
    """Why `path` may not name a resource of a skill, or `None`: the rules of all paths, and not `SKILL.md` itself."""
    if problem := path_problem(path):
        return problem
    if unicodedata.normalize("NFKC", str(path)).casefold() == SKILL_FILE.casefold():
        return "SKILL.md is not a resource: activate the skill"
    return "it is not shown" if is_ignored(str(path)) else None


def resource(path: str, size: int | None = None) -> SkillResource:
    """What a path says of a resource."""
    name = path.rpartition("/")[2]
    _, dot, extension = name.rpartition(".")
    extension = extension.lower() if dot else ""
    kind: Kind = _KINDS.get(path.split("/")[0], "file") if "/" in path else "file"
    # A name without an extension is that of a LICENSE, a Makefile, a script: text, unless it turns out not to be.
    encoding: Encoding = "text" if not extension or extension in _TEXT else "base64"
    return SkillResource(path, kind, encoding, _MEDIA.get(extension), size)
