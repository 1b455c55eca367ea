"""A node's network interfaces, asked of the kernel: /sys may show another name space's."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from typing import Optional, Sequence

_SIOCGIFADDR = 0x8915
_SIOCGIFFLAGS = 0x8913
_IFREQ_ADDRESS = slice(20, 24)
_IFREQ_FLAGS_OFFSET = 16
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_MAX_NAME_BYTES = 15
_ANYWHERE = "192.0.2.1"  # RFC 5737: no host has it, so the route is the default one


class NoAddressError(Exception):
    """This host has no such address; the text says what it has instead."""


def address_of(interface: str, others: Sequence[str] = ()) -> str:
    """Return the IPv4 address of an interface, or where none is named, the one others reach.

    ``others`` are the other nodes of the job: none of them can reach this host's loopback.
    """
    if not interface:
        return _address_towards(others)
    if len(interface.encode()) > _MAX_NAME_BYTES:
        raise NoAddressError(f"{interface!r} is no interface's name{_there_are()}")
    try:
        answer = _ask(_SIOCGIFADDR, interface)
    except OSError as error:
        raise NoAddressError(
            f"interface {interface} has no IPv4 address on this node "
            f"({error.strerror}){_there_are()}"
        ) from error
    return socket.inet_ntoa(answer[_IFREQ_ADDRESS])


def link_state(interface: str) -> str:
    """Return the link's state in Linux's own words for it; "missing" where there is none."""
    try:
        answer = _ask(_SIOCGIFFLAGS, interface)
    except OSError as error:
        return "missing" if error.errno == errno.ENODEV else "unknown"
    (flags,) = struct.unpack_from("=H", answer, _IFREQ_FLAGS_OFFSET)
    if not flags & _IFF_UP:
        return "down"
    # Up without carrier: the other end, a cable or a switch port is gone.
    return "up" if flags & _IFF_RUNNING else "lowerlayerdown"


def _ask(question: int, interface: str) -> bytes:
    request = struct.pack("256s", interface.encode()[:_MAX_NAME_BYTES])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return fcntl.ioctl(probe.fileno(), question, request)


def _address_towards(others: Sequence[str]) -> str:
    """Of the route to another node, else of the host's own name, else of the default route."""
    routes = [_route_to(other) for other in others[:1]]
    for address in (*routes, _resolve(socket.gethostname()), _route_to(_ANYWHERE)):
        # Debian and others give a host's own name 127.0.1.1.
        if address and not (others and address.startswith("127.")):
            return address
    raise NoAddressError(
        "this node has no address that others could reach by its own name; name the training's "
        f"interface in the recipe or the profile{_there_are()}"
    )


def _route_to(host: str) -> Optional[str]:
    """Return the local address that the kernel would use; connecting UDP sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))
            address: str = probe.getsockname()[0]
        except OSError:
            return None
    return address


def _resolve(name: str) -> Optional[str]:
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def _there_are() -> str:
    return "; there are: " + ", ".join(name for _, name in socket.if_nameindex())
