"""A node's network interfaces, asked of the kernel: /sys may show another name space's."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915
_SIOCGIFFLAGS = 0x8913
_IFREQ_ADDRESS = slice(20, 24)
_IFREQ_FLAGS_OFFSET = 16
_IFF_UP, _IFF_RUNNING = 0x1, 0x40
_MAX_NAME_BYTES = 15


class NoAddressError(Exception):
    """This host has no such address; the text says what it has instead."""


def address_of(interface: str) -> str:
    """Return the IPv4 address of an interface, or of the host's own name where none is named."""
    if not interface:
        return _address_of_host_name()
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


def _address_of_host_name() -> str:
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise NoAddressError(
            f"{name} has no address by its own name ({error}); name the training's interface "
            "in the recipe or the profile"
        ) from error
    return address


def _there_are() -> str:
    return "; there are: " + ", ".join(name for _, name in socket.if_nameindex())
