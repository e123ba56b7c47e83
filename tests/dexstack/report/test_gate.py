"""The page of a hand requires its token and rejects other pages."""

import urllib.error
import urllib.request

import pytest

from dexstack.report.gate import Gate

viser = pytest.importorskip("viser")
from websockets.exceptions import InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402


@pytest.fixture(scope="module")
def page():
    """Address of a guarded server without the token, and its gate."""
    gate = Gate()
    with gate.in_front():
        server = viser.ViserServer(host="127.0.0.1", port=8700, verbose=False)
    yield f"127.0.0.1:{server.get_port()}", gate
    server.stop()


def socket(address: str, query: str = "", **headers: str):
    kind = [f"viser-v{viser.__version__}"]
    return connect(
        f"ws://{address}/{query}",
        subprotocols=kind,
        origin=headers.pop("origin", None),
        additional_headers=headers,
    )


def status(address: str, query: str = "", **headers: str) -> int:
    try:
        return urllib.request.urlopen(
            urllib.request.Request(f"http://{address}/{query}", headers=headers)
        ).status
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_opens_with_its_token_and_sets_a_cookie_for_the_rest(page):
    address, gate = page
    answer = urllib.request.urlopen(f"http://{address}/?token={gate.token}")
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    pair = cookie.partition(";")[0]
    assert status(address, "index.html", Cookie=f"other=1; {pair}") == 200
    assert status(address, Cookie=f"dexstack-1={gate.token}") == 403, "the cookie of another port"
    with socket(address, Cookie=pair, origin=f"http://{address}") as open_one:
        assert open_one.recv(timeout=10)


@pytest.mark.parametrize("query", ["", "?token=", "?token=guess", "?token=%00", "index.html", "?Token=x"])
def test_requests_without_the_token_are_rejected(page, query):
    address, gate = page
    before = gate.refused
    assert status(address, query) == 403
    with pytest.raises(InvalidStatus) as refused:
        socket(address, query)
    assert refused.value.response.status_code == 403 and gate.refused == before + 2


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1", "null", "http://127.0.0.1:1"])
def test_another_page_is_rejected_even_with_the_token(page, origin):
    address, gate = page
    with pytest.raises(InvalidStatus) as refused:
        socket(address, f"?token={gate.token}", origin=origin)
    assert refused.value.response.status_code == 403
