"""As much of MariaDB's protocol as sends one text as it is and reads what comes back. The `mariadb` program would read the text itself
first, and leave comments out."""

import socket
import struct

ROWS_KEPT_MAX = 20_000
# Long flags, protocol 4.1, transactions, secure connection, several statements in a text, several results, plugins; and a database.
CAPABILITIES = 0x1 | 0x4 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x10000 | 0x20000 | 0x80000
UTF8MB4 = 45
IN_TRANSACTION, MORE_RESULTS = 0x1, 0x8


class Stuck(OSError):
    """No answer in time, or the connection is gone."""


class Session:
    def __init__(self, path, user, database, seconds):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")
        greeting = self.packet()
        after_version = greeting.index(b"\0", 1) + 1
        (self.thread,) = struct.unpack("<I", greeting[after_version : after_version + 4])
        words = user.encode() + b"\0\0" + database.encode() + b"\0mysql_native_password\0"
        self.send(struct.pack("<IIB23x", CAPABILITIES, 1 << 24, UTF8MB4) + words, 1)
        answer = self.packet()
        if answer[:1] == b"\xfe":
            # An account without a password.
            self.send(b"", 3)
            answer = self.packet()
        if answer[:1] == b"\xff":
            raise Stuck(answer[3:].decode("utf-8", "replace"))

    def send(self, body, number):
        self.socket.sendall(struct.pack("<I", len(body))[:3] + bytes([number]) + body)

    def packet(self):
        whole = b""
        while True:
            head = self.exactly(4)
            size = int.from_bytes(head[:3], "little")
            self.number = head[3]
            whole += self.exactly(size)
            if size < 0xFFFFFF:
                return whole

    def exactly(self, count):
        data = self.stream.read(count)
        if len(data) < count:
            raise OSError("the connection was closed")
        return data

    def query(self, text):
        """Rows of all results, errors, and whether a transaction is open afterwards."""
        rows, errors = [], []
        try:
            self.send(b"\x03" + text.encode("utf-8", "surrogatepass"), 0)
            while True:
                status = self.result(rows, errors)
                if status is None or not status & MORE_RESULTS:
                    return rows, errors, bool(status and status & IN_TRANSACTION)
        except (OSError, struct.error, IndexError) as error:
            raise Stuck(str(error)) from error

    def result(self, rows, errors):
        """The status after one result; none after an error."""
        first = self.packet()
        if first[:1] == b"\xfb":
            # The server asks for a file of the client; the answer is an empty one.
            self.send(b"", self.number + 1)
            first = self.packet()
        if first[:1] == b"\x00":
            _, at = length(first, 1)
            _, at = length(first, at)
            return struct.unpack("<H", first[at : at + 2])[0]
        if first[:1] == b"\xff":
            errors.append(first[3:].decode("utf-8", "replace"))
            return None
        columns, _ = length(first, 0)
        for _ in range(columns + 1):
            self.packet()
        while True:
            row = self.packet()
            if row[:1] == b"\xfe" and len(row) < 9:
                return struct.unpack("<H", row[3:5])[0]
            if row[:1] == b"\xff":
                errors.append(row[3:].decode("utf-8", "replace"))
                return None
            if len(rows) < ROWS_KEPT_MAX:
                rows.append(fields(row))

    def close(self):
        self.stream.close()
        self.socket.close()


def length(data, at):
    """A number of variable length, and where it ends."""
    first = data[at]
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first)
    if size is None:
        return first, at + 1
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def fields(row):
    at, found = 0, []
    while at < len(row):
        if row[at] == 0xFB:
            found.append(None)
            at += 1
            continue
        size, at = length(row, at)
        found.append(row[at : at + size].decode("utf-8", "replace"))
        at += size
    return found
