"""Pages of viser: other sites may not connect, other machines need the token."""

import base64
import http.client
import os

import pytest

pytest.importorskip("viser", reason="the extra `viewer` is not installed")

from gradsim.app.viewer import server as servers
from gradsim.app.viewer.guard import COOKIE, Guard


def ask(port, path="/", **headers):
    """Status, headers and text of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    text = b"" if response.status == 101 else response.read()
    status, about = response.status, dict(response.getheaders())
    connection.close()
    return status, about, text.decode(errors="replace")


def handshake(port, **headers):
    """Status of a request for a WebSocket."""
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13"}
    return ask(port, **upgrade, **headers)[0]


@pytest.fixture
def local():
    server, guard = servers.start_server("127.0.0.1", 0)
    assert guard.installed and not guard.token
    yield server.get_port()
    servers.stop_server(server)


@pytest.fixture
def public():
    server, guard = servers.start_server("0.0.0.0", 0)
    yield server.get_port(), guard.token
    servers.stop_server(server)


def test_a_local_page_is_for_this_machine_and_its_own_origin(local):
    assert ask(local)[0] == 200
    assert handshake(local, Origin=f"http://127.0.0.1:{local}") == 101
    assert handshake(local) == 101  # of a program, which has no origin
    assert handshake(local, Origin="http://elsewhere.example") == 403
    assert handshake(local, Origin="null") == 403
    status, _, text = ask(local, Host="elsewhere.example")
    assert status == 403 and "answers to localhost" in text


def test_a_page_for_other_machines_wants_its_token_once(public):
    port, token = public
    assert len(token) > 30
    status, _, text = ask(port)
    assert status == 403 and "wants the token of its address" in text
    assert ask(port, f"/?token={token[:-1]}x")[0] == 403
    assert handshake(port) == 403
    status, about, _ = ask(port, f"/?token={token}")
    assert status == 200 and "HttpOnly" in about["Set-Cookie"]
    cookie = about["Set-Cookie"].split(";")[0]
    assert cookie == f"{COOKIE}={token}"
    assert ask(port, Cookie=cookie)[0] == 200
    assert handshake(port, Cookie=cookie) == 101
    assert handshake(port, Cookie=cookie, Origin="http://elsewhere.example") == 403


def test_the_address_holds_the_token():
    guard = Guard("0.0.0.0")
    assert servers.address("0.0.0.0", 8080, guard.token) == f"http://localhost:8080/?token={guard.token}"
    assert servers.address("127.0.0.1", 8080, Guard("127.0.0.1").token) == "http://localhost:8080"
