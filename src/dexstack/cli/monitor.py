"""``dexstack monitor``: show a running graph, or a replay, in a browser."""

from __future__ import annotations

import argparse
import errno
import os
import secrets
import socket

from dexstack.cli import arguments
from dexstack.cli.options import command, option
from dexstack.cli.output import note, publish
from dexstack.errors import ConfigError

HOST, PORT = "127.0.0.1", 8080
PORTS = 100
"""Number of ports to try, from the requested one."""


add_parser = command(
    "monitor",
    arguments.add_scene_arguments,
    option("--namespace", default="", help="namespace of the graph's nodes"),
    option(
        "--host",
        default=HOST,
        help="address to listen on; anyone who reaches it and knows the page's token can move the hand",
    ),
    option("--port", type=arguments.positive_int, default=PORT, help="port, or the next free one"),
    option("--token", default="", help="token that opens the page (default: a new one)"),
    option("--no-open", action="store_true", help="do not open a browser"),
    description="Serve a page that shows a running graph or a replay in a browser: scene, plots, "
    "health of the nodes, controls. Joins the graph that was started on this machine, or the one of "
    "ROS_DOMAIN_ID. Ctrl-C ends it.",
)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C.

    Returns:
        0 if the user ended it, otherwise the node's exit code.
    """
    from dexstack.cli.supervisor import attached_environment
    from dexstack.cli.tool_nodes import run_nodes
    from dexstack.graph.modes import NodeDescription

    environment = attached_environment()
    page = page_parameters(args.host, args.port)
    page["token"] = args.token or page["token"]
    if args.no_open:
        page["open"] = False
    namespace = args.namespace.strip("/")
    parameters = {"hand": args.hand, "object": args.object, **page}
    node = NodeDescription(
        "monitor", parameters, namespace=f"/{namespace}" if namespace else "", ends_run=True
    )
    url = page_url(page)
    note(f"ROS domain {environment.get('ROS_DOMAIN_ID', '0')} at {url}")
    status = run_nodes([node], environment)
    publish(args, "monitor", {"url": url})
    return status


def page_url(page: dict[str, str | int | bool]) -> str:
    """Return the URL of the page with these parameters."""
    return f"http://{page['host']}:{page['port']}/?token={page['token']}"


def page_parameters(host: str, port: int) -> dict[str, str | int | bool]:
    """Return parameters of the monitor node: address, first free port, a token, and whether there is
    a screen to open the page on.

    Raises:
        ConfigError: no port is free, or the address is not of this machine.
    """
    for candidate in range(port, min(port + PORTS, 65536)):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except PermissionError:
                raise ConfigError(
                    f"port {candidate} of {host} needs administrator rights; try --port {PORT}"
                ) from None
            except OSError as error:
                if candidate == port and error.errno != errno.EADDRINUSE:
                    raise ConfigError(f"cannot listen on {host}: {error.strerror}") from None
                continue
        screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
        return {"host": host, "port": candidate, "token": secrets.token_urlsafe(16), "open": screen}
    raise ConfigError(f"no port from {port} to {port + PORTS - 1} is free on {host}")
