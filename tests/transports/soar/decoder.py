"""A second reader of Soar, written from docs/soar-spec.md and sharing no code with the implementation.

It reads what both sides send, given the keys, and believes nothing: every length, checksum, mask, gate and seal is
checked, and `Wrong` says which one is not as specified. It is slow, short, and keeps no state.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
from typing import Any, NoReturn

import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

__all__ = (
    "H",
    "Wrong",
    "classes",
    "open_answer",
    "open_packet",
    "public_of",
    "read_answer",
    "read_dns",
    "read_fragment",
    "read_frames",
    "read_header",
    "read_key",
    "read_msg1",
    "read_msg2",
    "read_name",
    "read_notice",
    "read_reply",
    "read_retry",
    "read_target",
)

Fields = dict[str, Any]

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
PARTIALS = ("NXDOMAIN", "NODATA", "REFUSED", "NODATA")  # by the two lowest bits of the flag
PROTOCOL = b"Noise_NK_25519_ChaChaPoly_SHA256"
FORM_TYPES = {0: dns.rdatatype.DS, 1: dns.rdatatype.TXT, 2: dns.rdatatype.A}


class Wrong(Exception):
    """Octets that are not as the specification has them."""


def wrong(what: str) -> NoReturn:
    raise Wrong(what)


def demand(condition: object, what: str) -> None:
    if not condition:
        wrong(what)


# --- 1. Notation ----------------------------------------------------------------------------


def H(n: int, key: bytes, data: bytes) -> bytes:  # noqa: N802 - its name in the specification
    return hashlib.blake2s(data, digest_size=n, key=key).digest()


def hmac_sha256(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


def hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    temporary = hmac_sha256(chaining_key, material)
    first = hmac_sha256(temporary, b"\x01")
    return first, hmac_sha256(temporary, first + b"\x02")


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def number(octets: bytes) -> int:
    return int.from_bytes(octets, "big")


def cut(octets: bytes, *sizes: int) -> list[bytes]:
    """Return consecutive fields of these sizes, and what is left."""
    parts = []
    for size in sizes:
        demand(len(octets) >= size, f"{len(octets)} octets, where a field of {size} must be")
        parts.append(octets[:size])
        octets = octets[size:]
    return [*parts, octets]


def base32(text: str) -> bytes:
    demand(set(text.lower()) <= set(LETTERS), "a character that is not of base32")
    filled = text.upper() + "A" * (-len(text) % 8)
    return base64.b32decode(filled)[: 5 * len(text) // 8]


# --- 3. Keys --------------------------------------------------------------------------------


def read_key(text: str, prefix: str, label: bytes, size: int) -> bytes:
    """Return the key in a text of 3.1 or 3.3."""
    demand(text.lower().startswith(prefix), "another prefix")
    coded = text[len(prefix) :]
    demand(len(coded) == -(-8 * (size + 3) // 5), "another length")
    key, checksum, _ = cut(base32(coded), size, 3)
    demand(checksum == H(3, b"", label + key), "a wrong checksum")
    return key


def public_of(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def header_key(public: bytes) -> bytes:
    return H(32, b"soar1 header", public)


def status_key(private: bytes, sid: bytes) -> bytes:
    return H(16, H(32, private, b"soar1 status"), sid)


# --- 4. Names -------------------------------------------------------------------------------


def classes(z: int) -> dict[int, tuple[int, int, int]]:
    """Return, for each class that a zone of `z` octets has, length of the name, labels, and length of the last."""
    found = {1: (z + 64, 1, 63)}
    for which, length in ((2, 101), (3, 178), (4, 255)):
        m = length - z
        n = -(-m // 64)
        r = m - 64 * (n - 1) - 1
        if n >= 2 and r >= 2 and r != 63 and r not in [last for _, _, last in found.values()]:
            found[which] = length, n, r
    return found


def labels_of(name: bytes) -> list[str]:
    labels = []
    while name and name[0]:
        labels.append(name[1 : 1 + name[0]].decode("ascii"))
        name = name[1 + name[0] :]
    demand(name == b"\0", "a name that does not end with the root")
    return labels


def read_name(zone: bytes, name: bytes) -> Fields:
    """Return what `name`, lower-case wire octets, carries to `zone`."""
    demand(name.endswith(zone), "a name outside of the zone")
    labels = labels_of(name[: len(name) - len(zone)] + b"\0")
    for which, (length, n, r) in classes(len(zone)).items():
        whole = [63] * (n - 1) + [r]
        sizes = [len(label) for label in labels]
        if sizes and sizes == whole[n - len(sizes) :] and len(sizes) < n:
            flag = LETTERS.index(labels[-1][0])
            return {"partial": True, "flag": flag, "answer": PARTIALS[flag & 3]}
        if sizes == whole:
            demand(len(name) == length, "a name that is not as long as its class")
            text = "".join(labels)
            selector, rest = text[0], text[1:]
            fields: Fields = {"class": which, "selector": LETTERS.index(selector)}
            if n > 1:
                at = len(rest) - r
                fields["flag"] = LETTERS.index(rest[at])
                rest = rest[:at] + rest[at + 1 :]
            return {**fields, "packet": base32(rest)}
    wrong("a name of no class")


# --- 6. Packets -----------------------------------------------------------------------------


def read_header(public: bytes, packet: bytes) -> Fields:
    demand(len(packet) >= 23, "junk: fewer than 23 octets")
    masked, _ = cut(packet, 7)
    header = xor(masked, H(7, header_key(public), packet[-16:]))
    b0 = header[0]
    kind, form, phase, version, zero = b0 >> 6, b0 >> 4 & 3, b0 >> 3 & 1, b0 >> 1 & 3, b0 & 1
    demand(kind != 3, "junk: kind 3")
    demand(form != 3, "junk: form 3")
    demand(phase == 0, "junk: a phase")
    demand(version == 0, "junk: another version")
    demand(zero == 0, "junk: the zero bit is set")
    return {
        "kind": kind,
        "form": form,
        "sid": header[1:5],
        "x": number(header[5:7]),
        "header": header,
    }


# --- 7. Handshake ---------------------------------------------------------------------------


def read_fragment(public: bytes, packet: bytes) -> Fields:
    fields = read_header(public, packet)
    demand(fields["kind"] == 0, "no fragment")
    body, gate = packet[7:-4], packet[-4:]
    demand(gate == H(4, header_key(public), fields["header"] + body), "a closed gate")
    offset, total = divmod(fields["x"], 256)
    demand(offset < total, "a piece outside of its message")
    return {**fields, "offset": offset, "total": total, "piece": body[: total - offset]}


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def dh(private: bytes, public: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).exchange(
        X25519PublicKey.from_public_bytes(public)
    )


def unseal(key: bytes, nonce: bytes, sealed: bytes, additional: bytes) -> bytes:
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, sealed, additional)
    except InvalidTag:
        wrong("a seal that does not open")


def begin(public: bytes, zone: bytes, e: bytes, es: bytes) -> tuple[bytes, bytes, bytes]:
    """Return Noise's h before the first payload, ck after es, and the key of that payload."""
    h = PROTOCOL  # 32 octets: as they are
    ck = h
    for part in (b"soar/1" + zone, public, e):
        h = sha256(h + part)
    ck, k = hkdf(ck, es)
    return h, ck, k


def read_msg1(private: bytes, zone: bytes, msg1: bytes, *, secret: bytes | None = None) -> Fields:
    """Return what a server with `private` reads in `msg1`; with a grant's secret, its proof is checked."""
    demand(len(msg1) <= 255, "a first message of more than 255 octets")
    e, sealed = cut(msg1, 32)
    h, ck, k = begin(public_of(private), zone, e, dh(private, e))
    payload = unseal(k, bytes(12), sealed, h)
    time, flags, max_version, rest = cut(payload, 4, 1, 1)
    fields: Fields = {
        "sid": H(4, b"", msg1),
        "time": number(time),
        "max_version": max_version[0],
        "k_early": hmac_sha256(ck, b"soar1 early"),
    }
    if flags[0] & 1:
        fields["cookie"], fields["cookie_sid"], rest = cut(rest, 8, 4)
    if flags[0] & 2:
        fields["grant_id"], fields["proof"], rest = cut(rest, 6, 16)
        if secret is not None:
            demand(fields["proof"] == H(16, secret, h), "a wrong proof")
    return {**fields, "frames": rest}


def read_reply(public: bytes, payload: bytes) -> tuple[int, bytes]:
    """Return type and body of the answer to a fragment."""
    masked, body = cut(payload, 1)
    demand(len(body) >= 16, "a body of fewer than 16 octets")
    return masked[0] ^ H(1, header_key(public), body[-16:])[0], body


def read_msg2(public: bytes, zone: bytes, ephemeral: bytes, msg1: bytes, msg2: bytes) -> Fields:
    """Return what a client, whose ephemeral private key is given, reads in `msg2`."""
    e, sealed1 = cut(msg1, 32)
    demand(e == public_of(ephemeral), "a first message with another ephemeral key")
    h, ck, _ = begin(public, zone, e, dh(ephemeral, public))
    h = sha256(h + sealed1)
    e2, sealed2 = cut(msg2, 32)
    h = sha256(h + e2)
    ck, k = hkdf(ck, dh(ephemeral, e2))
    payload = unseal(k, bytes(12), sealed2, h)
    sizes = (1, 1, 1, 4, 2, 2, 4, 2, 2, 2, 1, 16)
    *parts, frames = cut(payload, *sizes)
    status, version, flags, time, known, idle, lease, streams, window, windows, shards = map(
        number, parts[:11]
    )
    k_c2s, k_s2c = hkdf(ck, b"")
    if status == 0:
        demand(version == 0, "a version that was not offered")
        demand(shards in (1, 2, 4, 8, 16, 32), "a number of shards that is no power of two")
        demand(idle > 0, "no idle timeout")
    else:
        demand(not any(parts[11]), "a status key for no session")
    return {
        "status": status,
        "version": version,
        "early_refused": bool(flags & 1),
        "time": time,
        "known_for": known / 256,
        "idle_timeout": idle / 10,
        "lease": lease,
        "max_streams": streams,
        "stream_window": window * 1024,
        "session_window": windows * 1024,
        "shards": shards,
        "status_key": parts[11],
        "frames": frames,
        "k_c2s": k_c2s,
        "k_s2c": k_s2c,
    }


def read_retry(public: bytes, sid: bytes, body: bytes) -> Fields:
    code, cookie, time, mac, rest = cut(body, 1, 8, 4, 8)
    demand(not rest, "octets behind a RETRY")
    demand(mac == H(8, header_key(public), sid + code + cookie + time), "a wrong mac")
    demand(code[0] in (1, 2), "an unknown code")
    return {"code": code[0], "cookie": cookie, "time": number(time)}


# --- 8. Data --------------------------------------------------------------------------------


def nonce(direction: int, pn: int) -> bytes:
    return bytes([direction, 0, 0, 0]) + pn.to_bytes(8, "big")


def open_packet(
    public: bytes, keys: dict[int, bytes], packet: bytes, pn: int, zone_index: int
) -> Fields:
    """Return what a packet of kind 1 or 2 says; `keys` is `k_early` and `k_c2s` by kind."""
    fields = read_header(public, packet)
    demand(fields["kind"] in keys, "a packet of another kind")
    demand(fields["x"] == pn & 0xFFFF, "another packet number")
    additional = fields["header"] + bytes([zone_index])
    plain = unseal(keys[fields["kind"]], nonce(0, pn), packet[7:], additional)
    info, frames = cut(plain, 1)
    return {
        **fields,
        "path": info[0] >> 4,
        "size_class": info[0] >> 2 & 3,
        "may_park": bool(info[0] & 2),
        "frames": frames,
    }


def open_answer(k_s2c: bytes, pn: int, payload: bytes) -> Fields:
    backlog, held, frames = cut(unseal(k_s2c, nonce(1, pn), payload, b""), 1, 1)
    b = backlog[0]
    return {
        "backlog": b if b < 128 else 128 + 16 * (b - 128),
        "held": held[0] * 8 / 1000,
        "frames": frames,
    }


# --- 9. Frames ------------------------------------------------------------------------------


class _Octets:
    def __init__(self, octets: bytes) -> None:
        self.left = octets

    def take(self, size: int) -> bytes:
        part, self.left = cut(self.left, size)
        return part

    def varint(self) -> int:
        first = self.take(1)
        size = 1 << (first[0] >> 6)
        octets = bytes([first[0] & 0x3F]) + self.take(size - 1)
        return number(octets)


_CLIENT_ONLY = {0x01, 0x02, 0x03, 0x06, 0x1B}
_SERVER_ONLY = {0x04, 0x05, 0x14, 0x1A, 0x1C, 0x1D}
_PLAIN = {
    0x01: ("PING",),
    0x02: ("FLOOR", "delta"),
    0x04: ("OPENED", "stream"),
    0x05: ("REFUSED", "stream", "reason"),
    0x10: ("RESET", "stream", "code", "final_size"),
    0x11: ("STOP", "stream", "code"),
    0x12: ("MAX_DATA", "octets"),
    0x13: ("MAX_STREAM_DATA", "stream", "octets"),
    0x14: ("MAX_STREAMS", "streams"),
    0x1D: ("LEASE", "seconds"),
}


def read_frames(octets: bytes, *, from_client: bool) -> list[Fields]:
    """Return the frames of a packet, PAD and skipped ones left out."""
    frames: list[Fields] = []
    rest = _Octets(octets)
    while rest.left:
        kind = rest.varint()
        demand(
            kind not in (_SERVER_ONLY if from_client else _CLIENT_ONLY), "the wrong side's frame"
        )
        if kind == 0x00:
            break
        if kind in _PLAIN:
            name, *fields = _PLAIN[kind]
            frames.append({"frame": name, **{field: rest.varint() for field in fields}})
        elif kind == 0x03:
            count = rest.varint()
            demand(1 <= count <= 32, "LOST of too few or many")
            frames.append({"frame": "LOST", "deltas": [rest.varint() for _ in range(count)]})
        elif kind == 0x06:
            delta, length = rest.varint(), rest.varint()
            demand(1 <= length <= 64, "LOST_MAP of too few or many octets")
            frames.append({"frame": "LOST_MAP", "delta": delta, "bits": rest.take(length)})
        elif 0x08 <= kind <= 0x0F:
            stream = rest.varint()
            offset = rest.varint() if kind & 4 else 0
            length = rest.varint() if kind & 2 else len(rest.left)
            data = rest.take(length)
            frames.append(
                {
                    "frame": "STREAM",
                    "stream": stream,
                    "offset": offset,
                    "data": data,
                    "fin": bool(kind & 1),
                }
            )
        elif kind == 0x18:
            code, after = rest.varint(), rest.varint()
            frames.append({"frame": "END", "code": code, "last_stream": after - 1})
        elif kind in (0x1A, 0x1B):
            name = "CHALLENGE" if kind == 0x1A else "RESPONSE"
            frames.append({"frame": name, "token": rest.take(4)})
        elif kind == 0x1C:
            count = rest.varint()
            demand(1 <= count <= 8, "ZONES of too few or many")
            zones = []
            for _ in range(count):
                index, length = rest.take(2)
                zones.append([index, rest.take(length)])
            frames.append({"frame": "ZONES", "zones": zones})
        elif kind >= 0x40:
            rest.take(rest.varint())
        else:
            wrong(f"an unknown frame {kind:#x}")
    return frames


def read_target(octets: bytes) -> tuple[str, int, bytes]:
    """Return host and port with which a stream begins (10.1), and the rest."""
    length, rest = cut(octets, 1)
    if length[0] in (0xFE, 0xFF):
        packed, port, rest = cut(rest, 4 if length[0] == 0xFE else 16, 2)
        return str(ipaddress.ip_address(packed)), number(port), rest
    demand(1 <= length[0] <= 253, "a name of no length that there is")
    name, port, rest = cut(rest, length[0], 2)
    return name.decode("ascii"), number(port), rest


# --- 5 and 15.4. What the DNS carries ---------------------------------------------------------


def read_dns(message: bytes) -> Fields:
    """Return what both a question and an answer have."""
    parsed = dns.message.from_wire(message)
    demand(len(parsed.question) == 1, "not one question")
    asked = parsed.question[0]
    demand(asked.rdclass == 1, "another class than IN")
    spelled = asked.name.to_wire()
    assert spelled is not None
    return {
        "id": parsed.id,
        "name": spelled,
        "type": int(asked.rdtype),
        "edns": parsed.edns == 0,
        "edns_size": parsed.payload if parsed.edns == 0 else None,
        "flags": int(parsed.flags),
        "parsed": parsed,
    }


def read_answer(question: bytes, message: bytes, form: int) -> tuple[str, bytes]:
    """Return what kind of answer to `question` (a copy) the message is, and what it carries."""
    asked, said = read_dns(question), read_dns(message)
    parsed: dns.message.Message = said["parsed"]
    demand(said["flags"] & 0x8000, "no response")
    is_refused = parsed.rcode() == dns.rcode.REFUSED
    demand(bool(said["flags"] & 0x0400) != is_refused, "no authority, or one that refuses")
    for field in ("id", "name", "edns"):
        demand(said[field] == asked[field], f"another {field}")
    records = [*parsed.answer, *parsed.authority]
    demand(all(record.ttl == 0 for record in records), "a TTL above 0")
    if is_refused:
        demand(not records, "a refusal with records")
        return "refused", b""
    if said["flags"] & 0x0200:
        demand(not records, "a truncated answer with records")
        return "truncated", b""
    if parsed.rcode() == dns.rcode.NXDOMAIN:
        mname = _soa(parsed.authority).mname
        label = mname.labels[0].decode()
        return ("notice", base32(label)) if len(label) == 37 else ("nxdomain", b"")
    demand(parsed.rcode() == dns.rcode.NOERROR, "another rcode")
    if parsed.answer:
        demand(len(parsed.answer) == len(parsed.answer[0]) == 1, "more than one record")
        demand(said["type"] == FORM_TYPES[form] != dns.rdatatype.A, "another type than the form's")
        return "payload", _data(parsed.answer[0], form)
    soa = _soa(parsed.authority)
    names = (soa.mname, soa.rname)
    if form != 2 or any(len(label) != 63 for name in names for label in name.labels[:-2]):
        return "nodata", b""
    return "payload", b"".join(base32(b"".join(name.labels[:-1]).decode()) for name in names)


def _soa(authority: list[dns.rrset.RRset]) -> Any:
    demand(len(authority) == 1 and len(authority[0]) == 1, "not one record")
    demand(authority[0].rdtype == dns.rdatatype.SOA, "another record than a SOA")
    demand(authority[0][0].minimum == 0, "a MINIMUM above 0")
    return authority[0][0]


def _data(rrset: dns.rrset.RRset, form: int) -> bytes:
    record: Any = rrset[0]
    if form == 0:
        demand(record.digest_type == 250, "another digest type")
        tag: int = record.key_tag
        head = tag.to_bytes(2, "big") + bytes([int(record.algorithm)])
        return head + bytes(record.digest)
    *full, last = record.strings
    demand(all(len(string) == 255 for string in full) and last, "strings that are not full")
    return b"".join(record.strings)


def read_notice(key: bytes, name: bytes, octets: bytes) -> Fields:
    """Return the notice bound to `name`, lower-case wire octets."""
    code, known_for, last_stream, mac, rest = cut(octets, 1, 2, 4, 16)
    demand(not rest, "octets behind a notice")
    demand(mac == H(16, key, code + known_for + last_stream + name), "a wrong mac")
    last = number(last_stream)
    return {
        "code": code[0],
        "known_for": number(known_for) / 10,
        "last_stream": None if last == 0xFFFFFFFF else last,
    }
