"""A headless Chromium, controlled through its debugging port."""

from __future__ import annotations

import base64
import contextlib
import io
import itertools
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from websockets.sync.client import connect

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
        profile: an empty folder.
        phone: emulate a phone with a touch screen.
    """

    def __init__(
        self, url: str, profile: Path, *, width: int = 1280, height: int = 800, phone: bool = False
    ) -> None:
        own = [f"--user-data-dir={profile}", "--remote-debugging-port=0", f"--window-size={width},{height}"]
        log = profile / "chromium.log"
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [str(PROGRAM), *FLAGS, *own, "about:blank"], stderr=out, stdout=out, stdin=subprocess.DEVNULL
            )
        port = self._wait(
            lambda: re.search(r"DevTools listening on ws://127.0.0.1:(\d+)", log.read_text()), 60
        )[1]
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

    def tap(self, label: str) -> None:
        """Touch the button with this text once it is visible and not covered."""
        self.wait_for(f"!!{_button(label)}")
        self.evaluate(f"{_button(label)}.scrollIntoView({{block: 'center'}})")
        middle = f"(r => [r.x + r.width / 2, r.y + r.height / 2])({_button(label)}.getBoundingClientRect())"
        self.wait_for(f"(p => {_button(label)}.contains(document.elementFromPoint(...p)))({middle})", 20)
        x, y = self.evaluate(middle)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

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

    def drag(self, way: Sequence[tuple[float, float]]) -> None:
        """Drag the mouse along points on the screen."""
        mouse = {"button": "left", "clickCount": 1}
        first, last = ({"x": x, "y": y} for x, y in (way[0], way[-1]))
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **first)
        time.sleep(0.3)  # the object under the mouse is found in the next frame
        self.call("Input.dispatchMouseEvent", type="mousePressed", **first, **mouse)
        for x, y in way:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
            time.sleep(0.05)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **last, **mouse)

    def text(self) -> str:
        """Return the text of the page."""
        return self.evaluate("document.body.innerText")

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

    def _wait(self, condition: Any, timeout: float) -> Any:
        for _ in range(int(timeout / 0.1)):
            if value := condition():
                return value
            time.sleep(0.1)
        raise AssertionError(f"waited {timeout:g} s for the browser")


def _button(label: str) -> str:
    return f"[...document.querySelectorAll('button')].find(b => b.innerText.trim() == {json.dumps(label)})"
