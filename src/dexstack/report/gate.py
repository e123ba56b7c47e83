"""Access control of a page that can move a hand: a token, and the same origin.

A browser lets any page of any site open a WebSocket to this machine. Every request therefore needs
the token, in the address at first and in a cookie from then on, and the origin of a request sent by
a page must be this page's own address.
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
"""Function ``process_request`` of a websockets server: (connection, request) to a response, or None to
proceed."""


class Gate:
    """Token of one page.

    Args:
        token: the token; empty: a new one.
    """

    def __init__(self, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(16)
        self.refused = 0

    def allows(self, path: str, headers: Any, port: int) -> str:
        """Return why a request is rejected; empty if it is allowed.

        Args:
            path: path of the request with its query.
            headers: headers of the request.
            port: port of the page.
        """
        origin = headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("Host"):
            return "the request comes from another page"
        given = [*parse_qs(urlsplit(path).query).get("token", []), *_cookies(headers, self._cookie(port))]
        if not any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given):
            return "the token is missing or wrong: open the address that dexstack printed"
        return ""

    def guard(self, inner: Answer) -> Answer:
        """Return ``inner`` behind the check of the token."""
        from websockets.datastructures import Headers
        from websockets.http11 import Response

        def answer(connection: Any, request: Any) -> Any:
            port = connection.local_address[1]
            if why := self.allows(request.path, request.headers, port):
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
        """Guard the WebSocket server that is started inside.

        viser has no hook for access control, so ``websockets``' public ``serve``, which it looks up
        when it starts, is replaced meanwhile by one with a ``process_request``.
        """
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
        return f"dexstack-{port}"  # cookies are shared by all ports of a host


def _cookies(headers: Any, name: str) -> list[str]:
    pairs = (pair.strip().partition("=") for line in headers.get_all("Cookie") for pair in line.split(";"))
    return [value for key, _, value in pairs if key == name]
