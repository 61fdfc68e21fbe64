"""Sends garbage and messages of other protocols to every open port of a run, as strangers on the network might."""
import os
import socket
import threading

import leftovers

SET = 1  # first byte of a message of c10d's TCPStore; the key length follows
PAYLOADS = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), (2 ** 62).to_bytes(8, "little") * 64, b"", bytes(64), b"\x16\x03\x01\x02\x00\x01",
         bytes([SET]) + (2 ** 62).to_bytes(8, "little"), bytes([0]) + b"\x3c\x85\xf7\xb8" + bytes([SET]) + (2 ** 40).to_bytes(8, "little")]


class Strangers:
    """Context manager that sends data to the run's open ports until the `with` statement ends. `heard` maps each port
    to the number of accepted connections."""

    def __init__(self, mark, every=0.05, words=tuple(PAYLOADS)):
        self._mark, self._every, self._payloads, self._over = mark, every, words, threading.Event()
        self.heard = {}
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        turn = 0
        while not self._over.wait(self._every):
            for address, port in leftovers.listeners_of(leftovers.processes_of(self._mark)):
                turn += 1
                self._send(address, port, self._payloads[turn % len(self._payloads)])

    def _send(self, address, port, payload):
        try:
            with socket.create_connection((address, port), timeout=1) as connection:
                self.heard[port] = self.heard.get(port, 0) + 1
                connection.sendall(payload)
        except OSError:
            pass  # a refused connection is fine, too
