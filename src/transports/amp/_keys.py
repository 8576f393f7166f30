"""A broker's key pair."""

from __future__ import annotations

from racer.errors import ConfigError

__all__ = ("generate_key", "public_key_of")


def generate_key(bits: int = 2048) -> str:
    """Return a new private key of RSA as a PEM text, unencrypted: whoever has it reads what clients send.

    A longer key makes each URL longer: 2048 bits take 470 of its characters, 3072 take 700. Takes tens of milliseconds
    and more; blocks.

    Raises:
        ConfigError: not 2048, 3072 or 4096 bits.
    """
    if bits not in {2048, 3072, 4096}:
        msg = f"bits must be 2048, 3072 or 4096, not {bits!r}"
        raise ConfigError(msg)
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only who makes keys loads it
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode("ascii")


def public_key_of(key: str | bytes) -> str:
    """Return the public key to a private one, both PEM texts; clients need it.

    Raises:
        ConfigError: it is no private key of RSA.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    from transports.amp._crypto import read_private_key  # noqa: PLC0415

    return (
        read_private_key(key)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode("ascii")
    )
