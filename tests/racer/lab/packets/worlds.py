"""When a packet network can be had, and programs to run in one."""

from __future__ import annotations

import pytest

from racer.lab.packets import why_unavailable

REASON = why_unavailable()
needs_packets = pytest.mark.skipif(REASON is not None, reason=f"no packet network: {REASON}")

# Connects with TLS, sends a request, and says what came of it.
GET = """
import socket, ssl, sys
address, ca = sys.argv[1], sys.stdin.read()
context = ssl.create_default_context(cadata=ca)
context.verify_flags &= ~ssl.VERIFY_X509_STRICT
try:
    with socket.create_connection((address, 443), timeout=20) as sock:
        with context.wrap_socket(sock, server_hostname="news.example") as tls:
            tls.sendall(b"GET / HTTP/1.1\\r\\nHost: news.example\\r\\n\\r\\n")
            print(tls.recv(4096).split(b"\\r\\n")[0].decode())
except OSError as exc:
    print(type(exc).__name__)
"""

# Looks a name up as any program does.
LOOK_UP = """
import socket, sys
print(sorted({info[4][0] for info in socket.getaddrinfo(sys.argv[1], 443, socket.AF_INET)}))
"""
