"""A scripted stand-in for Anthropic's Messages API on this machine: what Claude Code talks to where there is no network.

    with serving(script) as url:
        options = ClaudeAgentOptions(env=environment(url, home), ...)

Nothing else is reachable: the address is its proxy, too, which refuses whatever is not for the API and notes it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeAlias

Request: TypeAlias = dict[str, Any]
Blocks: TypeAlias = list[dict[str, Any]]

MODEL: Final = "claude-sonnet-4-5"


class Api(ThreadingHTTPServer):
    """Answers each request for a message with what `script` makes of it, streamed if that is asked for."""

    daemon_threads = True

    def __init__(self, script: Callable[[Request], Blocks | str], *, streams: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.streams = streams
        self.requests: list[Request] = []
        self.refused: list[str] = []
        self.failures: list[BaseException] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Claude Code hangs up when it is stopped: that is no news."""


@contextlib.contextmanager
def serving(script: Callable[[Request], Blocks | str], *, streams: bool = True) -> Iterator[Api]:
    """The API while the block runs; what went wrong in the script is raised at its end."""
    api = Api(script, streams=streams)
    thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield api
    finally:
        api.shutdown()
        thread.join()
        api.server_close()
    if api.failures:
        raise api.failures[0]


def environment(api: Api, home: Path) -> dict[str, str]:
    """What keeps Claude Code to this API and to a folder of the test's."""
    return {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_TMPDIR": str(home),
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "HTTP_PROXY": api.url,
        "HTTPS_PROXY": api.url,
        "NO_PROXY": "127.0.0.1",
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Api

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        match self.path.partition("?")[0]:
            case "/v1/messages":
                self._message(body)
            case "/v1/messages/count_tokens":
                self._json(200, {"input_tokens": len(json.dumps(body)) // 4})
            case _:
                self._refuse()

    def _message(self, request: Request) -> None:
        if request.get("stream") and not self.server.streams:
            self._json(404, _error("not_found_error", "no streams here"))
            return
        with self.server.lock:
            self.server.requests.append(request)
            try:
                answer = self.server.script(request)
            except BaseException as failure:
                self.server.failures.append(failure)
                self._json(400, _error("invalid_request_error", f"the script: {failure!r}"))
                return
            message = _message(len(self.server.requests), answer)
        if not request.get("stream"):
            self._json(200, message)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in _events(message):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True

    def _refuse(self) -> None:
        self.server.refused.append(f"{self.command} {self.path}")
        self._json(404, _error("not_found_error", self.path))

    do_GET = do_HEAD = do_CONNECT = do_PUT = do_DELETE = _refuse

    def _json(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _error(kind: str, text: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": text}}


def _message(n: int, answer: Blocks | str) -> dict[str, Any]:
    blocks = [{"type": "text", "text": answer}] if isinstance(answer, str) else answer
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_{n:04}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": blocks,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10 * n, "output_tokens": n},
    }


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        text = block["type"] == "text"
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, "text": ""} if text else {**block, "input": {}},
        }
        whole = block["text"] if text else json.dumps(block["input"])
        for piece in (whole[:2], whole[2:]):
            delta = (
                {"type": "text_delta", "text": piece} if text else {"type": "input_json_delta", "partial_json": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": message["usage"]}
    yield {"type": "message_stop"}
