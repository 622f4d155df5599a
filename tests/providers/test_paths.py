"""Paths from outside name a file below a root or are refused, whatever is tried."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import UsageError
from plait.providers.paths import check_path, is_ignored, one_line, path_problem
from plait.providers.skill import resource, resource_problem

GOOD = ["a", "a.md", "a/b/c.txt", "..a", "a..", "a/.hidden", "ünï/用户.md", "a b/c d", "👩‍💻.md", "con/x", "a:b", "x."]
BAD = [
    "", "/", "/etc/passwd", "..", "../x", "a/../x", "a/..", ".", "./a", "a/./b", "a//b", "a/", "//a", "a\\b", "..\\x", "C:\\x",
    "a\0b", "a\nb", "a\x7fb", "a\x85b", "a\u2028b", "a\u202eb", "a\ud800b", "\u2025/x", "\uff0e\uff0e/x", "a\uff0fb", "a\uff3cb",
    ".plait-descriptions/x", "a/.PLAIT-x", ".plait\uff0dx", "x" * 256, "x/" * 600 + "x",
]  # fmt: skip


@pytest.mark.parametrize("path", GOOD)
def test_a_plain_relative_path_is_taken(path: str) -> None:
    assert path_problem(path, windows=False) is None


@pytest.mark.parametrize("path", BAD, ids=ascii)
def test_a_path_that_may_lead_elsewhere_is_refused(path: str) -> None:
    assert path_problem(path, windows=False)
    assert path_problem(path, windows=True)


@pytest.mark.parametrize(
    "path", ["a:b", "C:x", "x.", "x ", "con", "a/NUL.txt", "LPT1", "com¹.x", "con .txt", "a\uff1ab"]
)
def test_what_windows_gives_another_meaning_is_refused_there(path: str) -> None:
    assert path_problem(path, windows=True)
    assert path_problem(path, windows=False) is None


@pytest.mark.parametrize("value", [None, 3, b"a", ["a"]])
def test_what_is_not_text_is_refused(value: object) -> None:
    assert path_problem(value)


@given(st.text())
def test_an_accepted_path_stays_below_its_root(path: str) -> None:
    if path_problem(path) is None:
        joined = os.path.normpath(os.path.join("/root/of/all", path))
        assert joined.startswith("/root/of/all/") and joined.endswith(path)


def test_the_error_names_the_place_and_the_rule() -> None:
    with pytest.raises(UsageError, match=r"key '\.\./x' cannot be used: .*\.\. may not stand in it"):
        check_path("../x")


@pytest.mark.parametrize(
    ("path", "ignored"),
    [
        (".git/config", True),
        ("a/.GIT/x", True),
        ("a/node_modules/b", True),
        ("x/.ds_store", True),
        (".gitignore", False),
    ],
)
def test_what_listings_do_not_show(path: str, ignored: bool) -> None:
    assert is_ignored(path) is ignored


def test_one_line_is_one_line() -> None:
    assert one_line(" a\r\nb\u2028c\0d\u202ee\t f ") == "a b c d e f"


@pytest.mark.parametrize(
    "path", ["SKILL.md", "skill.MD", "\uff33KILL.md", ".git/x", "scripts/.DS_Store", "a/../b", "a\\b"]
)
def test_what_is_no_resource_of_a_skill(path: str) -> None:
    assert resource_problem(path)


@pytest.mark.parametrize(
    ("path", "kind", "encoding", "media_type"),
    [
        ("scripts/run.py", "script", "text", "text/x-python"),
        ("references/a/b.MD", "reference", "text", "text/markdown"),
        ("assets/logo.png", "asset", "base64", "image/png"),
        ("assets/blob.xyz", "asset", "base64", None),
        ("LICENSE", "file", "text", None),
        ("scripts", "file", "text", None),
        ("docs/SKILL.md", "file", "text", "text/markdown"),
        ("Scripts/x.sh", "file", "text", "text/x-shellscript"),
    ],
)
def test_kind_goes_by_the_top_folder_and_encoding_by_the_extension(
    path: str, kind: str, encoding: str, media_type: str | None
) -> None:
    assert resource_problem(path) is None
    found = resource(path, 3)
    assert (found.kind, found.encoding, found.media_type, found.size) == (kind, encoding, media_type, 3)
