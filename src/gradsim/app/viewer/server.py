"""Server of pages made by viser (extra `viewer`): start, address, stop."""

import contextlib
import getpass
import io
import os
import socket

from gradsim.errors import InputError


def start_server(host: str, port: int):
    """A `viser.ViserServer`.

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
    with contextlib.redirect_stdout(io.StringIO()):  # the command prints the address
        return viser.ViserServer(host=host, port=port, verbose=False)


def stop_server(server) -> None:
    """Stop a server."""
    with contextlib.redirect_stdout(io.StringIO()):
        server.stop()


def address(host: str, port: int) -> str:
    """Address of a page."""
    return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{port}"


def tunnel_command(port: int) -> str:
    """SSH command that forwards a port to another machine."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    host = connection[2] if len(connection) == 4 else socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # unknown user id
        user = "USER"
    return f"ssh -L {port}:localhost:{port} {user}@{host}"
