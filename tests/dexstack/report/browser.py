"""A headless Chromium, controlled through its debugging port."""

import contextlib
import itertools
import json
import re
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from tests.acceptance.programs import Program, until

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--no-first-run",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-gpu-vsync",
)


class Browser:
    """One page.

    Args:
        url: address of the page.
        profile: a new folder.
        phone: emulate a phone with a touch screen.
    """

    def __init__(
        self, url: str, profile: Path, *, width: int = 1280, height: int = 800, phone: bool = False
    ) -> None:
        own = [f"--user-data-dir={profile}", "--remote-debugging-port=0", f"--window-size={width},{height}"]
        self._process = process = Program([str(PROGRAM), *FLAGS, *own, "about:blank"], profile)
        port = self._wait(lambda: re.search(r"DevTools listening on ws://127.0.0.1:(\d+)", process.err), 60)[
            1
        ]
        new = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        page = json.load(urllib.request.urlopen(new))
        self._stack = contextlib.ExitStack()
        self._socket = self._stack.enter_context(connect(page["webSocketDebuggerUrl"], max_size=None))
        self._numbers = itertools.count(1)
        if phone:
            self.call(
                "Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=True
            )
            self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Page.navigate", url=url)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its result."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("id") == number:
                return answer.get("result", answer)  # an error while a page is being replaced

    def evaluate(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        return (
            self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
            .get("result", {})
            .get("value")
        )

    def wait_for(self, script: str, timeout: float = 60) -> Any:
        """Return the first true value of an expression."""
        return self._wait(lambda: self.evaluate(script), timeout)

    def close(self) -> None:
        self._stack.close()
        self._process.terminate()
        self._process.wait(20)

    def _wait(self, condition: Callable[[], Any], timeout: float) -> Any:
        value = until(condition, timeout)
        assert value, f"waited {timeout:g} s for the browser"
        return value
