"""IP packets with TCP or UDP in them, read and made: bounded, total, pure (RFC 791, RFC 8200, RFC 9293, RFC 768)."""

from __future__ import annotations

import enum
import ipaddress
import struct
from dataclasses import dataclass, field, replace
from typing import Final

__all__ = ("Flags", "Packet", "decode", "make_tcp", "make_udp", "with_ttl")

_TCP: Final = 6
_UDP: Final = 17
_V4: Final = struct.Struct("!BBHHHBBH4s4s")
_V6: Final = struct.Struct("!IHBB16s16s")
_TCP_HEADER: Final = struct.Struct("!HHIIBBHHH")
_UDP_HEADER: Final = struct.Struct("!HHHH")
_FRAGMENT: Final = (
    0x3FFF  # more fragments, and the offset: neither may be set where ports are to be read
)
_WINDOW: Final = 65_535


class Flags(enum.IntFlag):
    """The control bits of TCP (RFC 9293 §3.1)."""

    FIN = 0x01
    SYN = 0x02
    RST = 0x04
    PSH = 0x08
    ACK = 0x10


NO_FLAGS: Final = Flags(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """An IP packet.

    Attributes:
        source, destination: its addresses.
        ttl: how many routers it may still meet, itself counted: TTL, or hop limit.
        over: `tcp`, `udp`, or `None` for what has no ports that can be read: other protocols, fragments.
        source_port, destination_port: 0 where `over` is `None`.
        seq, ack, flags: of TCP.
        data: what TCP or UDP carries.
        octets: all of it, as it is on the wire.
    """

    source: str
    destination: str
    ttl: int
    octets: bytes = field(repr=False)
    over: str | None = None
    source_port: int = 0
    destination_port: int = 0
    seq: int = 0
    ack: int = 0
    flags: Flags = NO_FLAGS
    data: bytes = b""


def decode(octets: bytes) -> Packet | None:
    """Return the packet that `octets` are; `None` when they are none. Checksums are not looked at."""
    match octets[:1] and octets[0] >> 4:
        case 4:
            return _decode_v4(octets)
        case 6:
            return _decode_v6(octets)
        case _:
            return None


def _decode_v4(octets: bytes) -> Packet | None:
    if len(octets) < _V4.size:
        return None
    first, _, length, _, fragment, ttl, protocol, _, source, destination = _V4.unpack_from(octets)
    header = (first & 0x0F) * 4
    if not _V4.size <= header <= length <= len(octets):
        return None
    found = Packet(
        source=str(ipaddress.IPv4Address(source)),
        destination=str(ipaddress.IPv4Address(destination)),
        ttl=ttl,
        octets=octets[:length],
    )
    return found if fragment & _FRAGMENT else _with_ports(found, protocol, header)


def _decode_v6(octets: bytes) -> Packet | None:
    if len(octets) < _V6.size:
        return None
    _, length, protocol, ttl, source, destination = _V6.unpack_from(octets)
    if _V6.size + length > len(octets):
        return None
    found = Packet(
        source=str(ipaddress.IPv6Address(source)),
        destination=str(ipaddress.IPv6Address(destination)),
        ttl=ttl,
        octets=octets[: _V6.size + length],
    )
    # Extension headers are not walked through: what has some is taken for neither TCP nor UDP.
    return _with_ports(found, protocol, _V6.size)


def _with_ports(packet: Packet, protocol: int, header: int) -> Packet:
    """Return the packet with what its TCP or UDP header says, if it has one."""
    inner = packet.octets[header:]
    if protocol == _TCP and len(inner) >= _TCP_HEADER.size:
        near, far, seq, ack, offset, flags, *_ = _TCP_HEADER.unpack_from(inner)
        length = (offset >> 4) * 4
        if _TCP_HEADER.size <= length <= len(inner):
            return replace(
                packet,
                over="tcp",
                source_port=near,
                destination_port=far,
                seq=seq,
                ack=ack,
                flags=Flags(flags & 0x1F),
                data=inner[length:],
            )
    if protocol == _UDP and len(inner) >= _UDP_HEADER.size:
        near, far, length, _ = _UDP_HEADER.unpack_from(inner)
        if _UDP_HEADER.size <= length <= len(inner):
            return replace(
                packet,
                over="udp",
                source_port=near,
                destination_port=far,
                data=inner[_UDP_HEADER.size : length],
            )
    return packet


def with_ttl(packet: Packet, ttl: int) -> bytes:
    """Return the packet's octets with another TTL or hop limit, as a router sends it on."""
    octets = bytearray(packet.octets)
    if octets[0] >> 4 == 6:
        octets[7] = ttl
        return bytes(octets)
    octets[8] = ttl
    header = (octets[0] & 0x0F) * 4
    octets[10:12] = b"\0\0"
    octets[10:12] = _checksum(bytes(octets[:header])).to_bytes(2, "big")
    return bytes(octets)


def make_tcp(
    source: tuple[str, int],
    destination: tuple[str, int],
    *,
    seq: int,
    ack: int,
    flags: Flags,
    ttl: int = 64,
    data: bytes = b"",
) -> bytes:
    """Return the octets of an IP packet with a TCP segment, checksums included."""
    near, far = _addresses(source, destination)
    segment = bytearray(
        _TCP_HEADER.pack(source[1], destination[1], seq, ack, 5 << 4, flags, _WINDOW, 0, 0) + data
    )
    segment[16:18] = _pseudo_checksum(near, far, _TCP, bytes(segment)).to_bytes(2, "big")
    return _wrap(near, far, _TCP, ttl, bytes(segment))


def make_udp(
    source: tuple[str, int], destination: tuple[str, int], data: bytes, *, ttl: int = 64
) -> bytes:
    """Return the octets of an IP packet with a UDP datagram, checksums included."""
    near, far = _addresses(source, destination)
    header = (source[1], destination[1], _UDP_HEADER.size + len(data))
    datagram = _UDP_HEADER.pack(*header, 0) + data
    # A sum of zero is sent as its complement: zero says that there is none (RFC 768).
    checksum = _pseudo_checksum(near, far, _UDP, datagram) or 0xFFFF
    return _wrap(near, far, _UDP, ttl, _UDP_HEADER.pack(*header, checksum) + data)


def _addresses(source: tuple[str, int], destination: tuple[str, int]) -> tuple[bytes, bytes]:
    near, far = (ipaddress.ip_address(end[0]).packed for end in (source, destination))
    return near, far


def _wrap(source: bytes, destination: bytes, protocol: int, ttl: int, inner: bytes) -> bytes:
    if len(source) == 16:
        return _V6.pack(6 << 28, len(inner), protocol, ttl, source, destination) + inner
    fields = (0x45, 0, _V4.size + len(inner), 0, 0, ttl, protocol)
    checksum = _checksum(_V4.pack(*fields, 0, source, destination))
    return _V4.pack(*fields, checksum, source, destination) + inner


def _pseudo_checksum(source: bytes, destination: bytes, protocol: int, inner: bytes) -> int:
    """Return the checksum over a segment and its pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1)."""
    length = struct.pack(
        "!HH" if len(source) == 4 else "!II", *_length_fields(source, protocol, inner)
    )
    return _checksum(source + destination + length + inner)


def _length_fields(source: bytes, protocol: int, inner: bytes) -> tuple[int, int]:
    return (protocol, len(inner)) if len(source) == 4 else (len(inner), protocol)


def _checksum(octets: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    if len(octets) % 2:
        octets += b"\0"
    total: int = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
