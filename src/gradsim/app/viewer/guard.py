"""Who may open a page of viser: pages of other sites never, other machines with a token alone.

A page that a browser shows from elsewhere may connect to a server of this machine, since WebSockets know no same-origin rule: so the
`Origin` of a connection has to be the server itself, and a server that listens at the loopback address answers to its names alone
(DNS rebinding). A server that other machines reach wants the token of its address once, and a cookie from then on.
"""

import http
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "gradsim_viewer"
TOKEN_BYTES = 24
_starting = threading.Lock()


class Guard:
    """Check of requests to one server.

    Args:
        host: Address at which the server listens; with another than the loopback address, a token is wanted.
    """

    def __init__(self, host: str):
        self.is_local = host in LOOPBACK
        self.token = "" if self.is_local else secrets.token_urlsafe(TOKEN_BYTES)
        self.installed = False

    def refusal(self, path: str, headers) -> str:
        """Why a request is refused; "" of one that is answered.

        Args:
            path: Path and query.
            headers: Of the request, with `get`.
        """
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if self.is_local and (urlsplit(f"//{host}").hostname or "") not in LOOPBACK:
            return f"This page answers to localhost; the request names {host}."
        if origin is not None and urlsplit(origin).netloc != host:
            return f"A page of {origin} may not connect to this one."
        if self.token and not self._has_token(path, headers):
            return "This page wants the token of its address: open the address that the command printed."
        return ""

    def _has_token(self, path: str, headers) -> bool:
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
        except CookieError:
            cookie = None
        offered = [*parse_qs(urlsplit(path).query).get("token", []), *([cookie.value] if cookie else [])]
        return any(secrets.compare_digest(one.encode(), self.token.encode()) for one in offered)

    def around(self, answer: Callable | None) -> Callable:
        """The same answers to requests, of websockets (`process_request`), to those that are not refused."""
        from websockets import Headers
        from websockets.http11 import Response

        def guarded(connection, request):
            words = self.refusal(request.path, request.headers)
            if words:
                body = words.encode()
                about = Headers({"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))})
                return Response(http.HTTPStatus.FORBIDDEN, "Forbidden", about, body)
            response = None if answer is None else answer(connection, request)
            if self.token and response is not None:
                response.headers["Set-Cookie"] = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
            return response

        return guarded

    @contextmanager
    def installed_in_viser(self) -> Iterator[None]:
        """A server of viser that starts in this context has this guard."""
        from websockets.asyncio import server

        original = server.serve

        def serve(*args, process_request=None, **options):
            self.installed = True
            return original(*args, process_request=self.around(process_request), **options)

        with _starting:
            server.serve = serve
            try:
                yield
            finally:
                server.serve = original
