"""Who may use a page that can move a hand: whoever was given its token, and no other page.

A browser lets any page of any site open a WebSocket to this machine. So every request needs the
token, in the address at first and in a cookie from then on, and a request that a page sent must
come from this page's own address.
"""

from __future__ import annotations

import contextlib
import hmac
import http
import secrets
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = Callable[[Any, Any], Any]
"""What a websockets server asks before it upgrades a connection: (connection, request) to a
response, or None to go on."""


class Gate:
    """One page's token.

    Args:
        token: what whoever uses the page has to know; empty: a new one.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(16)
        self.refused = 0

    def allows(self, path: str, headers: Any, port: int) -> str:
        """Why a request is refused; empty when it is not.

        Args:
            path: with its query.
            headers: of the request.
            port: the page's own.
        """
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("Host"):
            return "another page asks"
        given = [*parse_qs(urlsplit(path).query).get("token", []), *_cookies(headers, self._cookie(port))]
        if not any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given):
            return "the token is missing or wrong: open the address that dexstack printed"
        return ""

    def guard(self, inner: Answer) -> Answer:
        """``inner``, for those who may."""
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        def answer(connection: Any, request: Any) -> Any:
            port = connection.local_address[1]
            why = self.allows(request.path, request.headers, port)
            if why:
                self.refused += 1
                return Response(http.HTTPStatus.FORBIDDEN, "FORBIDDEN", Headers(), (why + "\n").encode())
            response = inner(connection, request)
            if response is not None:
                response.headers["Set-Cookie"] = (
                    f"{self._cookie(port)}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                )
            return response

        return answer

    @contextlib.contextmanager
    def in_front(self) -> Iterator[None]:
        """What serves WebSockets and is started meanwhile, as viser's server is, stands behind the
        gate."""
        import websockets.asyncio.server as server

        serve = server.serve

        def guarded(*args: Any, process_request: Answer, **more: Any) -> Any:
            return serve(*args, process_request=self.guard(process_request), **more)

        server.serve = guarded  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            server.serve = serve  # type: ignore[misc]

    @staticmethod
    def _cookie(port: int) -> str:
        return f"dexstack-{port}"  # cookies know no ports, and two pages of one machine have two tokens


def _cookies(headers: Any, name: str) -> list[str]:
    pairs = (pair.strip().partition("=") for line in headers.get_all("Cookie") for pair in line.split(";"))
    return [value for key, _, value in pairs if key == name]
