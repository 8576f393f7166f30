"""Grants and their proof (SPEC 3.3, 7.2)."""

from __future__ import annotations

import pytest

from tests.transports.soar.crypto.parties import GRANT, FixedEntropy, flips
from transports.soar.core.crypto import Grant, InvalidKey
from transports.soar.core.crypto.grants import proof, proves
from transports.soar.core.crypto.hashes import digest

HASH = digest(32, b"", b"a handshake")


def test_a_grant_is_new_each_time() -> None:
    entropy = FixedEntropy("grants")
    one, other = Grant.generate(entropy), Grant.generate(entropy)
    assert one.id != other.id
    assert one.secret != other.secret


@pytest.mark.parametrize(("id_size", "secret_size"), [(5, 32), (7, 32), (6, 31), (6, 33), (0, 0)])
def test_a_grant_has_its_sizes(id_size: int, secret_size: int) -> None:
    with pytest.raises(InvalidKey, match="6 octets and a secret 32"):
        Grant(id=bytes(id_size), secret=bytes(secret_size))


def test_a_proof_is_for_one_handshake_and_one_secret() -> None:
    made = proof(GRANT.secret, HASH)
    assert made == digest(16, GRANT.secret, HASH)
    assert proves(GRANT.secret, HASH, made)
    for other in flips(made):
        assert not proves(GRANT.secret, HASH, other)
    for other in flips(HASH):
        assert not proves(GRANT.secret, other, made)
    for other in flips(GRANT.secret):
        assert not proves(other, HASH, made)
    assert not proves(GRANT.secret, HASH, made[:15])
    assert not proves(GRANT.secret, HASH, b"")
