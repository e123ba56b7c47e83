"""Visitor of a page of dexstack, without a browser."""

from __future__ import annotations

import contextlib
import threading

import msgspec
from websockets.sync.client import connect


class Visitor:
    """Client of an open page, over its web socket."""

    def __init__(self, page) -> None:
        import viser

        self._stack = contextlib.ExitStack()
        connection = connect(
            page.url.replace("http", "ws"), subprotocols=[f"viser-v{viser.__version__}"], max_size=None
        )
        self._socket = self._stack.enter_context(connection)
        self._reader = threading.Thread(target=self._read)
        self.received = 0
        self._reader.start()
        here = {
            "wxyz": (1, 0, 0, 0),
            "position": (0.3, 0, 0.3),
            "look_at": (0, 0, 0),
            "up_direction": (0, 0, 1),
        }
        lens = {"fov": 1.0, "near": 0.01, "far": 10.0, "image_height": 600, "image_width": 900}
        self._send(
            {"type": "ViewerCameraMessage", **here, **lens}
        )  # only who looks from somewhere is a viewer

    def _read(self) -> None:
        for message in self._socket:
            self.received += len(message)

    def change(self, element, value) -> None:
        """As a browser reports a moved slider or a pressed button."""
        update = {"type": "GuiUpdateMessage", "uuid": element._impl.uuid, "updates": {"value": value}}
        self._send(update)

    def drag(self, name, position, wxyz) -> None:
        """As a browser reports a gizmo that was taken, moved and let go."""
        self._send({"type": "TransformControlsDragStartMessage", "name": name, "owner": ""})
        self._send(
            {
                "type": "TransformControlsUpdateMessage",
                "name": name,
                "wxyz": wxyz,
                "position": position,
                "owner": "",
            }
        )
        self._send({"type": "TransformControlsDragEndMessage", "name": name, "owner": ""})

    def _send(self, message) -> None:
        self._socket.send(msgspec.msgpack.encode(message))

    def close(self) -> None:
        self._stack.close()
        self._reader.join()
