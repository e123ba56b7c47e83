"""A headless Chromium, controlled through its debugging port."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import re
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
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

    def click(self, label: str) -> None:
        """Click the button with this text."""
        self.wait_for(f"!!{_button(label)}")
        self.evaluate(f"{_button(label)}.click()")

    def check(self, label: str) -> None:
        """Tick the box next to this text."""
        up = "let e = b; while (e && !(e.innerText || '').trim()) e = e.parentElement;"
        boxes = "[...document.querySelectorAll('input[type=checkbox]')]"
        box = f"{boxes}.find(b => {{ {up} return e && e.innerText.includes({json.dumps(label)}); }})"
        self.wait_for(f"!!{box}")
        self.evaluate(f"{box}.click()")

    def choose(self, shown: str, wanted: str) -> None:
        """Open the menu that shows one value and choose another."""
        self.evaluate(
            f"[...document.querySelectorAll('input')].find(i => i.value == {json.dumps(shown)}).click()"
        )
        options = "[...document.querySelectorAll('[role=option]')]"
        option = f"{options}.find(o => o.innerText.trim() == {json.dumps(wanted)})"
        self.wait_for(f"!!{option}")
        self.evaluate(f"{option}.click()")

    def dismiss_notes(self) -> None:
        """Close the notifications over the scene."""
        notes = "[...document.querySelectorAll('[class*=Notification-closeButton]')]"
        self.wait_for(f"{notes}.length > 0")
        self.evaluate(f"{notes}.forEach(button => button.click())")
        self.wait_for(f"{notes}.length == 0")

    def screenshot(self) -> bytes:
        """Return the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def colourful(self) -> int:
        """Return the number of coloured pixels of the scene: hand and floor are grey, objects are not."""
        left = np.asarray(Image.open(io.BytesIO(self.screenshot())).convert("RGB"), int)[100:, 50:550]
        return int(((left.max(axis=2) - left.min(axis=2)) > 60).sum())

    def close(self) -> None:
        self._stack.close()
        self._process.terminate()
        self._process.wait(20)

    def _wait(self, condition: Callable[[], Any], timeout: float) -> Any:
        value = until(condition, timeout)
        assert value, f"waited {timeout:g} s for the browser"
        return value


def _button(label: str) -> str:
    return f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() == {json.dumps(label)})"
