"""Judges what resolvers said: who answers, who lies, and what gets through. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from racer._axis import seconds
from racer._finding import Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from racer.doctor._resolvers import Hearsay

__all__ = ("EXISTS", "judge")

# Bits; large sites answer differently all the time, and seldom from anywhere.
_NETWORK: Final = {4: 24, 6: 48}

_PLAIN: Final = 512  # octets of a datagram without EDNS, RFC 1035 §4.2.1

EXISTS: Final = "example.com"
"""A name that is reserved for such things (RFC 2606), and has addresses."""

_LIES: Final = (
    'Use an encrypted resolver: resolver = "https://…" or "tls://…" in the options of `direct`.',
    "Add the transport `proxyless`, which asks encrypted resolvers by itself.",
)
_SILENT: Final = (
    "See that its address is right, and that this network lets questions out to it.",
    "List another resolver.",
)


class _Opinion(NamedTuple):
    verdict: Verdict
    words: str
    advice: tuple[str, ...] = ()


def judge(heard: Sequence[Hearsay], host: str) -> list[Finding]:
    """Return a finding for each resolver, and one for all together where they leave something open.

    Args:
        heard: what each said.
        host: about whom.
    """
    findings = []
    for one in heard:
        opinions = (
            _silence(one),
            _contradiction(one, host),
            _lie(one, heard, host),
            _detour(one),
            _nowhere(one, host),
            _failure(one, host),
            _no_stream(one),
        )
        found = next(filter(None, opinions), None) or _health(one)
        findings.append(
            Finding(
                check=f"resolver {one.resolver.label}",
                verdict=found.verdict,
                words=found.words,
                advice=found.advice,
                data=_data(one),
            )
        )
    if (together := _together(heard, host)) is not None:
        findings.append(
            Finding(
                check="resolvers",
                verdict=together.verdict,
                words=together.words,
                advice=together.advice,
            )
        )
    return findings


def _silence(one: Hearsay) -> _Opinion | None:
    if one.name.first is not None or one.name_v6.first is not None:
        return None
    return _Opinion(
        Verdict.FAIL, f"{one.resolver.label} does not answer: {one.name.error}.", _SILENT
    )


def _contradiction(one: Hearsay, host: str) -> _Opinion | None:
    """Find two answers to one question: who lies on the way has to be faster, and seldom silences the resolver."""
    for heard in (one.name, one.name_v6):
        answers = [answer for answer in heard.answers if not answer.is_truncated]
        if len(answers) > 1:
            first, then = (_said(each.addresses) or each.rcode for each in answers[:2])
            words = (
                f"Somebody answers in the place of {one.resolver.label}: to one question about {host} there came "
                f"{first} first, and then {then}."
            )
            return _Opinion(Verdict.FAIL, words, _LIES)
    return None


def _lie(one: Hearsay, everyone: Sequence[Hearsay], host: str) -> _Opinion | None:
    """Find an answer that has nothing in common with what an encrypted resolver says."""
    honest = [other for other in everyone if _is_honest(other)]
    if one.resolver.is_encrypted or not honest or any(_agree(one, other) for other in honest):
        return None
    told = (
        f"says that {host} is at {_said(one.addresses)}"
        if one.addresses
        else f"says {one.rcode} about {host}"
    )
    words = (
        f"{one.resolver.label} lies, or somebody does in its place: it {told}, and {honest[0].resolver.label}, "
        f"in whose place nobody can answer, says {_said(honest[0].addresses)}."
    )
    return _Opinion(Verdict.FAIL, words, _LIES)


def _detour(one: Hearsay) -> _Opinion | None:
    if one.missing.first is None or not one.missing.first.addresses:
        return None
    words = (
        f"{one.resolver.label} gives an address, {_said(one.missing.first.addresses)}, for a name that does not exist: "
        "it leads you somewhere in place of an error."
    )
    return _Opinion(Verdict.WARN, words, _LIES)


def _nowhere(one: Hearsay, host: str) -> _Opinion | None:
    if not any(_is_nowhere(address) for address in one.addresses):
        return None
    words = f"{one.resolver.label} says that {host} is at {_said(one.addresses)}, which is this machine or nowhere: so filters say no."
    return _Opinion(Verdict.WARN, words, _LIES)


def _failure(one: Hearsay, host: str) -> _Opinion | None:
    if one.rcode in {"NOERROR", "NXDOMAIN"} or one.addresses:
        return None
    said = f"it answers {one.rcode}" if one.rcode else one.name.error
    return _Opinion(
        Verdict.WARN, f"{one.resolver.label} cannot say where {host} is: {said}.", _SILENT[1:]
    )


def _no_stream(one: Hearsay) -> _Opinion | None:
    if one.stream is None or one.stream.first is not None:
        return None
    words = f"{one.resolver.label} answers in datagrams, and not over TCP ({one.stream.error}): long answers get lost."
    return _Opinion(Verdict.WARN, words, _SILENT[1:])


def _health(one: Hearsay) -> _Opinion:
    took = [each.seconds for each in (one.name, one.name_v6) if each.seconds is not None]
    parts = [f"{one.resolver.label} answers in {seconds(min(took, default=0.0))}"]
    first = one.name.first
    if (longest := _largest(one)) is not None and longest > _PLAIN:
        parts.append(f"answers of {longest} bytes get through")
    if first is not None and not first.has_edns and one.resolver.scheme == "udp":
        parts.append("it knows no EDNS, so answers stay short")
    if first is not None and not first.keeps_case:
        parts.append("it changes the case of names")
    if _minimises(one) is False:
        parts.append("it tells every name server the whole name")
    return _Opinion(Verdict.OK, f"{'; '.join(parts)}.")


def _together(heard: Sequence[Hearsay], host: str) -> _Opinion | None:
    """Return what all of them together leave open."""
    spoken = [one for one in heard if one.rcode in {"NOERROR", "NXDOMAIN"}]
    if spoken and not any(one.addresses for one in spoken):
        if host == EXISTS:
            words = (
                f"No resolver knows {host}, which exists: they lead nowhere, or only to some names."
            )
            return _Opinion(Verdict.WARN, words, _SILENT[1:])
        words = f"No resolver knows an address of {host}."
        return _Opinion(Verdict.WARN, words, ("Check the spelling of the host.",))
    if any(_is_honest(one) for one in heard):
        return None
    for index, one in enumerate(spoken):
        for other in spoken[index + 1 :]:
            if not _agree(one, other):
                words = (
                    f"{one.resolver.label} and {other.resolver.label} disagree about {host}, and no encrypted resolver "
                    "answered that could settle it: one of them may lie."
                )
                return _Opinion(Verdict.WARN, words, _LIES)
    return None


def _is_honest(one: Hearsay) -> bool:
    return one.resolver.is_encrypted and bool(one.addresses)


def _agree(one: Hearsay, other: Hearsay) -> bool:
    mine = {_network(address) for address in one.addresses}
    theirs = {_network(address) for address in other.addresses}
    return bool(mine & theirs) or not (mine or theirs)


def _network(address: str) -> object:
    version = ipaddress.ip_address(address).version
    return ipaddress.ip_network(f"{address}/{_NETWORK[version]}", strict=False)


def _is_nowhere(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return found.is_loopback or found.is_unspecified


def _said(addresses: Iterable[str]) -> str:
    shown = sorted(addresses)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


def _minimises(one: Hearsay) -> bool | None:
    """Return whether it tells other name servers no more than they need; `None` when that was not to be seen."""
    texts = " ".join(one.minimal.first.texts).upper() if one.minimal.first is not None else ""
    return True if texts.startswith("HOORAY") else False if texts.startswith("NO") else None


def _data(one: Hearsay) -> Mapping[str, Any]:
    first = one.name.first
    return {
        "system": one.resolver.is_system,
        "rcode": one.rcode or None,
        "addresses": sorted(one.addresses),
        "seconds": one.name.seconds,
        "error": one.name.error or None,
        "answers_to_one_question": len(one.name.answers),
        "answers_missing_names": bool(one.missing.first and one.missing.first.addresses),
        "edns": first.has_edns if first is not None else None,
        "keeps_case": first.keeps_case if first is not None else None,
        "largest_datagram": _largest(one),
        "tcp": None if one.stream is None else one.stream.first is not None,
        "minimises_names": _minimises(one),
    }


def _largest(one: Hearsay) -> int | None:
    """Return the octets of the longest answer that came in a datagram."""
    if one.resolver.scheme != "udp":
        return None
    heard = [one.name, one.name_v6, one.missing, one.minimal, *([one.long] if one.long else [])]
    sizes = [answer.size for each in heard for answer in each.answers]
    return max(sizes, default=None)
