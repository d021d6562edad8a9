"""Server of pages made by viser (extra `viewer`): start, address, stop."""

import contextlib
import getpass
import io
import os
import socket

from gradsim.app.viewer.guard import Guard
from gradsim.errors import InputError


def start_server(host: str, port: int):
    """A `viser.ViserServer`, and the guard of its pages.

    Args:
        host: Address to listen at.
        port: Port to listen at; the next free one if it is in use, any free one if 0.

    Raises:
        InputError: If viser is not installed, or this machine has no such address or port.
    """
    try:
        import viser
    except ImportError:
        raise InputError('viser is not installed; run `pip install "gradsim[viewer]"`.') from None
    if not 0 <= port < 65536:
        raise InputError(f"port is {port}; use 1 to 65535, or 0 for any free port.")
    try:  # viser itself would try the next ports for ever
        family, kind, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.bind(place)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host} ({error.strerror}); use 127.0.0.1, 0.0.0.0 or an address of this machine."
        ) from None
    guard = Guard(host)
    with contextlib.redirect_stdout(io.StringIO()), guard.installed_in_viser():  # the command prints the address
        server = viser.ViserServer(host=host, port=port, verbose=False)
    if guard.token and not guard.installed:
        stop_server(server)
        raise InputError(
            f"this version of viser ({viser.__version__}) starts its server in another way, so that no token can protect it; listen at 127.0.0.1, "
            'or run `pip install "viser==1.1.1"`.'
        )
    return server, guard


def stop_server(server) -> None:
    """Stop a server."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


def address(host: str, port: int, token: str = "") -> str:
    """Address of a page, with its token."""
    page = f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{port}"
    return f"{page}/?token={token}" if token else page


def tunnel_command(port: int) -> str:
    """SSH command that forwards a port to another machine."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    host = connection[2] if len(connection) == 4 else socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # unknown user id
        user = "USER"
    return f"ssh -L {port}:localhost:{port} {user}@{host}"
