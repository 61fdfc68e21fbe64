"""Strangers who talk to whatever port a run has open: as long as the run lasts, in all tongues but the right one."""
import os
import socket
import threading

import leftovers

SET = 1  # a message of c10d's TCPStore begins with such a byte, and the length of a key follows
WORDS = [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), (2 ** 62).to_bytes(8, "little") * 64, b"", bytes(64), b"\x16\x03\x01\x02\x00\x01",
         bytes([SET]) + (2 ** 62).to_bytes(8, "little"), bytes([0]) + b"\x3c\x85\xf7\xb8" + bytes([SET]) + (2 ** 40).to_bytes(8, "little")]


class Strangers:
    """with Strangers(mark): ...; `heard`: how many connections were made, by port."""

    def __init__(self, mark, every=0.05, words=tuple(WORDS)):
        self._mark, self._every, self._words, self._over = mark, every, words, threading.Event()
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
                self._say(address, port, self._words[turn % len(self._words)])

    def _say(self, address, port, words):
        try:
            with socket.create_connection((address, port), timeout=1) as connection:
                self.heard[port] = self.heard.get(port, 0) + 1
                connection.sendall(words)
        except OSError:
            pass  # refusing is right too
