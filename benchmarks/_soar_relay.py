"""A link for DNS on loopback, for who may not make network namespaces: `python -m benchmarks._soar_relay ...`.

Datagrams wait, or are lost, on their way to one server and back. A resolver asks from a new port each time: all of it goes
on from one socket, under ids of our own, so that no socket is needed for each question. TCP goes through as well, with the
delay and without loss. As the packet link does, it tells for each line on its standard input what has crossed so far.
"""

from __future__ import annotations

import contextlib
import json
import random
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from typing import Final

__all__ = ("Relay", "main")

_BATCH: Final = 64
_BUFFER: Final = 4 << 20  # bytes; of sockets
_IDS: Final = 1 << 16


class Relay:
    """Both directions of a link.

    Args:
        listen: where questions come; a port of 0 takes a free one.
        upstream: where they go.
        delay: seconds, each way.
        loss: probability, each way.
        seed: of its dice.
    """

    def __init__(
        self,
        listen: tuple[str, int],
        upstream: tuple[str, int],
        *,
        delay: float,
        loss: float,
        seed: int,
    ) -> None:
        self._upstream = upstream
        self._delay = delay
        self._loss = loss
        self._dice = random.Random(seed)
        self._front = socket.socket(type=socket.SOCK_DGRAM)
        self._front.bind(listen)
        self.address: tuple[str, int] = self._front.getsockname()
        self._behind = socket.socket(type=socket.SOCK_DGRAM)
        self._behind.connect(upstream)
        for sock in (self._front, self._behind):
            sock.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self._streams = socket.create_server(self.address, backlog=128)
        self._up: deque[tuple[float, bytes]] = deque()
        self._down: deque[tuple[float, bytes, tuple[str, int]]] = deque()
        self._asked: dict[int, tuple[tuple[str, int], bytes]] = {}
        self._next_id = 0
        self.counts = [0, 0, 0, 0, 0]
        """Questions, their octets, answers, theirs, and what was lost."""

    def run(self) -> None:
        """Carry until standard input ends."""
        threading.Thread(target=self._accept, daemon=True).start()
        files = [self._front, self._behind, sys.stdin]
        while True:
            ready, _, _ = select.select(files, [], [], self._deliver())
            if self._front in ready:
                self._take_questions()
            if self._behind in ready:
                self._take_answers()
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return
                print(*self.counts, flush=True)

    def _deliver(self) -> float | None:
        """Deliver what is due, and return how many seconds are left until the next is."""
        now = time.monotonic()
        with contextlib.suppress(OSError):  # nobody there: it is lost
            while self._up and self._up[0][0] <= now:
                self._behind.send(self._up.popleft()[1])
        with contextlib.suppress(OSError):
            while self._down and self._down[0][0] <= now:
                _, message, client = self._down.popleft()
                self._front.sendto(message, client)
        due = [queue[0][0] for queue in (self._up, self._down) if queue]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _take_questions(self) -> None:
        counts = self.counts
        for _ in range(_BATCH):
            try:
                message, client = self._front.recvfrom(4096)
            except OSError:
                return
            counts[0] += 1
            counts[1] += len(message)
            if len(message) < 12 or self._is_lost():
                continue
            number = self._next_id
            self._next_id = (number + 1) % _IDS
            self._asked[number] = (client, message[:2])
            self._up.append(
                (time.monotonic() + self._delay, number.to_bytes(2, "big") + message[2:])
            )

    def _take_answers(self) -> None:
        counts = self.counts
        for _ in range(_BATCH):
            try:
                message = self._behind.recv(4096)
            except OSError:
                return
            counts[2] += 1
            counts[3] += len(message)
            asked = self._asked.pop(int.from_bytes(message[:2], "big"), None)
            if asked is None or self._is_lost():
                continue
            client, own = asked
            self._down.append((time.monotonic() + self._delay, own + message[2:], client))

    def _is_lost(self) -> bool:
        if self._loss and self._dice.random() < self._loss:
            self.counts[4] += 1
            return True
        return False

    # --- TCP, for the rare answer that was too large --------------------------------------------

    def _accept(self) -> None:
        while True:
            near, _ = self._streams.accept()
            try:
                far = socket.create_connection(self._upstream, 5)
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._splice, args=(one, other), daemon=True).start()

    def _splice(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while octets := one.recv(65_536):
                time.sleep(self._delay)
                other.sendall(octets)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)


def main() -> None:
    """Relay as the JSON of the first argument says, and print where it listens."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us
    told = json.loads(sys.argv[1])
    relay = Relay(
        tuple(told["listen"]),
        tuple(told["upstream"]),
        delay=told["delay"],
        loss=told["loss"],
        seed=told["seed"],
    )
    print(relay.address[1], flush=True)
    relay.run()


if __name__ == "__main__":
    main()
