"""The room as a whole: what entering it costs."""

from __future__ import annotations

import json
import subprocess
import sys

# They load when first needed: a test without name servers, proxies or certificates does without.
HEAVY = {"dns", "h11", "h2", "httpx", "transports", "trio", "trustme"}


def test_entering_the_lab_is_cheap() -> None:
    program = "import json, sys, racer.lab; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(result.stdout)}
    assert loaded & HEAVY == set()
