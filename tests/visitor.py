"""A visitor of a page of dexstack, without a browser."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import msgspec
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

VIEW = {
    "wxyz": (1, 0, 0, 0),
    "position": (0.3, 0, 0.3),
    "look_at": (0, 0, 0),
    "up_direction": (0, 0, 1),
    "fov": 1.0,
    "near": 0.01,
    "far": 10.0,
    "image_height": 600,
    "image_width": 900,
}


class Visitor:
    """Opens the page of an address and speaks its protocol over the web socket."""

    def __init__(self, url: str) -> None:
        import viser

        protocol = [f"viser-v{viser.__version__}"]
        self._socket = connect(url.replace("http", "ws"), subprotocols=protocol, max_size=None)
        self.received = 0
        """Number of bytes."""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._send("ViewerCameraMessage", **VIEW)  # without a camera it does not count as a viewer

    def _read(self) -> None:
        with contextlib.suppress(ConnectionClosedError):
            for message in self._socket:
                self.received += len(message)

    def change(self, element: Any, value: Any) -> None:
        """Report a moved slider or a pressed button."""
        self._send("GuiUpdateMessage", uuid=element._impl.uuid, updates={"value": value})

    def drag(self, name: str, position: tuple[float, ...], wxyz: tuple[float, ...]) -> None:
        """Report a gizmo that was dragged."""
        self._send("TransformControlsDragStartMessage", name=name, owner="")
        self._send("TransformControlsUpdateMessage", name=name, owner="", wxyz=wxyz, position=position)
        self._send("TransformControlsDragEndMessage", name=name, owner="")

    def _send(self, kind: str, **fields: Any) -> None:
        self._socket.send(msgspec.msgpack.encode({"type": kind, **fields}))

    def close(self) -> None:
        self._socket.close()
        self._reader.join()
