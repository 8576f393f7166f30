"""Whether telemetry gets out: asks the collector that the OTEL_* variables name, if any. Blocks."""

from __future__ import annotations

from racer._axis import seconds
from racer._finding import Finding, Verdict
from racer.errors import ConfigError

__all__ = ("check_export",)


def check_export(limit: float) -> list[Finding]:
    """Return a finding for traces and one for metrics, where they are exported.

    Args:
        limit: seconds for each of them.
    """
    from racer import telemetry  # noqa: PLC0415 - the SDK is loaded when an export is asked for

    try:
        answers = telemetry.check(limit)
    except ConfigError as exc:
        words = f"Telemetry cannot be exported: {exc}."
        return [Finding(check="export", verdict=Verdict.FAIL, words=words)]
    if not answers:
        words = (
            "No export of traces or metrics is asked for (OTEL_EXPORTER_OTLP_ENDPOINT is not set)."
        )
        return [Finding(check="export", verdict=Verdict.SKIPPED, words=words)]
    return [
        Finding(
            check=f"export of {answer.signal}",
            verdict=Verdict.OK if answer.is_taken else Verdict.WARN,
            words=f"{answer.words[:1].upper()}{answer.words[1:].rstrip('.')}.",
            advice=() if answer.advice is None else (_sentence(answer.advice),),
            data={"protocol": answer.protocol, "seconds": seconds(answer.seconds)},
        )
        for answer in answers
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
