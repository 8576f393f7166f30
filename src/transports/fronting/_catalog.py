"""A list of fronts in the `domainfront` schema: what may stand in one, and what it says. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from racer.errors import ConfigError
from transports._net.yaml_documents import read_yaml
from transports.fronting._schema import Reader, place, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("Authority", "Catalog", "Front", "FrontKey", "Provider", "SNIPolicy", "read_catalog")

MAX_AUTHORITIES: Final = 200
"""Certificates of authorities; a whole browser's store has about 150."""

_TOP: Final = ("trustedcas", "providers")
_AUTHORITY: Final = ("commonname", "cert")
# `verifyHostname` has a capital here and none in a masquerade: so the schema has it.
_PROVIDER: Final = (
    "frontingsnis",
    "hostaliases",
    "masquerades",
    "passthroughpatterns",
    "testurl",
    "validator",
    "verifyHostname",
)
_POLICY: Final = ("arbitrarysnis", "usearbitrarysnis")
_MASQUERADE: Final = ("domain", "ipaddress", "sni", "verifyhostname")
_VALIDATOR: Final = ("rejectstatus",)

FrontKey = tuple[str, str, str]
"""Who a front is, from one list to the next: provider, domain, address as written."""


@dataclass(frozen=True, slots=True)
class Front:
    """One edge of a provider, and the name it is to be seen under (a *masquerade* in the schema).

    Attributes:
        provider: the provider's id.
        domain: the name that it shows a certificate for.
        address: an IP address.
        port: mostly 443.
        sni: a name to send in TLS, empty for none of its own.
        verify_hostname: the name its certificate has to have, empty for the provider's or `domain`.
        key: who it is.
    """

    provider: str
    domain: str
    address: str
    port: int = 443
    sni: str = ""
    verify_hostname: str = ""
    key: FrontKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Write the key, which is asked for often."""
        written = self.address if self.port == 443 else f"[{self.address}]:{self.port}"
        object.__setattr__(self, "key", (self.provider, self.domain, written))


@dataclass(frozen=True, slots=True)
class SNIPolicy:
    """Which names to send in TLS in a country: one of `names` if `is_on`, for a front always the same one."""

    is_on: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A content delivery network.

    Attributes:
        id: any text; it may hold what no header and no log line should.
        aliases: hosts of origins, in lower case, to the hosts that the network knows them under.
        passthrough_patterns: hosts that the network knows as they are: names, and `*.` before one.
        test_scheme: of the URL that proves a front; unused, since every front is reached by TLS.
        test_host: a host that answers `POST test_target` with 202; empty where there is none.
        test_target: path and query.
        verify_hostname: the name that certificates have to have, empty for each front's own.
        sni_policies: by country code in lower case, or `default`.
        fronts: its edges.
        reject_statuses: answers that are the network's refusal, besides 403 and 5xx.
    """

    id: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    passthrough_patterns: tuple[str, ...] = ()
    test_scheme: str = "https"
    test_host: str = ""
    test_target: str = ""
    verify_hostname: str = ""
    sni_policies: Mapping[str, SNIPolicy] = field(default_factory=dict)
    fronts: tuple[Front, ...] = ()
    reject_statuses: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Authority:
    """A root that fronts' certificates may lead to."""

    common_name: str
    pem: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A whole list.

    Attributes:
        authorities: the only roots that count.
        providers: by id, in the list's order.
        notes: what its maintainer should know.
        unknown: what stands under keys that nobody knows, by their places.
    """

    authorities: tuple[Authority, ...]
    providers: Mapping[str, Provider]
    notes: tuple[str, ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def count(self) -> int:
        """Return how many fronts it has."""
        return sum(len(provider.fronts) for provider in self.providers.values())


def read_catalog(data: bytes) -> Catalog:
    """Return the list in `data`, YAML or gzipped YAML; whole, or not at all. Takes a quarter of a second for 2,000 fronts.

    Raises:
        ConfigError: says what is wrong, and where.
    """
    document = read_yaml(data)
    reader = Reader()
    top = reader.fields(document, "", _TOP)
    authorities = tuple(
        _authority(reader, item, at) for at, item in reader.items(top["trustedcas"], "trustedcas")
    )
    if not 1 <= len(authorities) <= MAX_AUTHORITIES:
        msg = f"trustedcas: {len(authorities)} certificates; without one nothing could be verified, and at most {MAX_AUTHORITIES} are read"
        raise ConfigError(msg)
    providers = {
        name: _provider(reader, name, value, place("providers", name))
        for name, value in reader.mapping(top["providers"], "providers").items()
    }
    catalog = Catalog(
        authorities=authorities,
        providers=providers,
        notes=tuple(reader.notes),
        unknown=reader.unknown,
    )
    if not catalog.count():
        msg = "providers: not one front"
        raise ConfigError(msg)
    return catalog


def _authority(reader: Reader, value: object, at: str) -> Authority:
    from cryptography import x509  # noqa: PLC0415 - only who reads a list loads it

    fields = reader.fields(value, at, _AUTHORITY)
    pem = reader.text(fields["cert"], f"{at}.cert")
    name = reader.optional_text(fields["commonname"], f"{at}.commonname")
    try:
        certificates = x509.load_pem_x509_certificates(pem.encode())
        for certificate in certificates:
            if not _is_authority(certificate):
                msg = "not the certificate of an authority"
                raise ValueError(msg)  # noqa: TRY301 - told below, with its place
        # The library does not look at the key before it is asked for it, and OpenSSL would take none that is broken.
        for certificate in certificates:
            certificate.public_key()
    except (ValueError, x509.InvalidVersion) as exc:
        msg = f"{at}.cert ({name[:60]!r}): no certificate that could be trusted: {str(exc)[:120]}"
        raise ConfigError(msg) from exc
    return Authority(name, pem)


def _is_authority(certificate: Any) -> bool:  # noqa: ANN401 - cryptography's, which is not loaded here
    from cryptography import x509  # noqa: PLC0415 - loaded already

    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return bool(certificate.issuer == certificate.subject)  # old roots have none
    return bool(constraints.value.ca)


def _provider(reader: Reader, name: str, value: object, at: str) -> Provider:
    fields = reader.fields(value, at, _PROVIDER)
    if not name.isprintable() or not name:
        reader.note(f"{at}: an id that no header can carry")
    aliases = {
        reader.host(host, f"{at}.hostaliases"): reader.host(known, place(f"{at}.hostaliases", host))
        for host, known in reader.optional_mapping(
            fields["hostaliases"], f"{at}.hostaliases"
        ).items()
    }
    patterns = tuple(
        _pattern(reader, item, where)
        for where, item in reader.items(fields["passthroughpatterns"], f"{at}.passthroughpatterns")
    )
    policies = {
        country.lower(): _policy(reader, policy, place(f"{at}.frontingsnis", country))
        for country, policy in reader.optional_mapping(
            fields["frontingsnis"], f"{at}.frontingsnis"
        ).items()
    }
    validator = reader.optional_mapping(fields["validator"], f"{at}.validator")
    statuses = reader.fields(dict(validator), f"{at}.validator", _VALIDATOR)["rejectstatus"]
    fronts = tuple(
        _front(reader, name, item, where)
        for where, item in reader.items(fields["masquerades"], f"{at}.masquerades")
    )
    test_scheme, test_host, test_target = _test_url(reader, fields["testurl"], f"{at}.testurl")
    return Provider(
        id=name,
        aliases=aliases,
        passthrough_patterns=patterns,
        test_scheme=test_scheme,
        test_host=test_host,
        test_target=test_target,
        verify_hostname=reader.optional_host(fields["verifyHostname"], f"{at}.verifyHostname"),
        sni_policies=policies,
        fronts=fronts,
        reject_statuses=frozenset(
            reader.number(item, where)
            for where, item in reader.items(statuses, f"{at}.validator.rejectstatus")
        ),
    )


def _front(reader: Reader, provider: str, value: object, at: str) -> Front:
    fields = reader.fields(value, at, _MASQUERADE)
    address, port = reader.address(fields["ipaddress"], f"{at}.ipaddress")
    return Front(
        provider,
        reader.host(fields["domain"], f"{at}.domain"),
        address,
        port,
        reader.optional_host(fields["sni"], f"{at}.sni"),
        reader.optional_host(fields["verifyhostname"], f"{at}.verifyhostname"),
    )


def _policy(reader: Reader, value: object, at: str) -> SNIPolicy:
    fields = reader.fields(value, at, _POLICY)
    names = tuple(
        reader.host(item, where)
        for where, item in reader.items(fields["arbitrarysnis"], f"{at}.arbitrarysnis")
    )
    return SNIPolicy(reader.flag(fields["usearbitrarysnis"], f"{at}.usearbitrarysnis"), names)


def _pattern(reader: Reader, value: object, at: str) -> str:
    text = reader.text(value, at).lower()
    reader.host(text.removeprefix("*."), at)
    return text


def _test_url(reader: Reader, value: object, at: str) -> tuple[str, str, str]:
    text = reader.optional_text(value, at)
    if not text:
        return "https", "", ""
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        parts, host = None, None
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if parts is None or not host or parts.scheme not in {"http", "https"} or not is_plain:
        raise wrong(at, "a URL with http or https", value)
    if parts.username is not None or parts.password is not None:
        msg = f"{at}: a URL without user and password belongs there"
        raise ConfigError(msg)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.scheme, reader.host(host, at), target
