"""As much of PostgreSQL's protocol as sends one text as it is and reads what comes back. `psql` would read the text itself first."""

import socket
import struct

ROWS_KEPT_MAX = 20_000


class Stuck(OSError):
    """No answer in time, or the connection is gone."""


class Session:
    def __init__(self, path, user, database, seconds):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")
        words = b"".join(word.encode() + b"\0" for word in ("user", user, "database", database)) + b"\0"
        self.socket.sendall(struct.pack(">ii", len(words) + 8, 196608) + words)
        self.pid = None
        _, errors, _ = self.answers()
        if errors:
            raise Stuck(errors[0])

    def query(self, text):
        """Rows, errors, and whether a transaction is open afterwards: `I` for none."""
        body = text.encode("utf-8", "surrogatepass") + b"\0"
        try:
            self.socket.sendall(b"Q" + struct.pack(">i", len(body) + 4) + body)
            return self.answers()
        except (OSError, struct.error) as error:
            raise Stuck(str(error)) from error

    def answers(self):
        rows, errors = [], []
        while True:
            kind, size = struct.unpack(">ci", self.exactly(5))
            body = self.exactly(size - 4)
            if kind == b"D" and len(rows) < ROWS_KEPT_MAX:
                rows.append(fields(body))
            elif kind == b"E":
                errors.append(body.decode("utf-8", "replace").replace("\0", " "))
            elif kind == b"K":
                self.pid = struct.unpack(">i", body[:4])[0]
            elif kind in (b"G", b"W"):
                # The server waits for rows: there are none.
                self.socket.sendall(b"f" + struct.pack(">i", 9) + b"none\0")
            elif kind == b"Z":
                return rows, errors, body.decode()

    def exactly(self, count):
        data = self.stream.read(count)
        if len(data) < count:
            raise OSError("the connection was closed")
        return data

    def close(self):
        self.stream.close()
        self.socket.close()


def fields(body):
    (count,) = struct.unpack(">h", body[:2])
    at, found = 2, []
    for _ in range(count):
        (size,) = struct.unpack(">i", body[at : at + 4])
        found.append(None if size < 0 else body[at + 4 : at + 4 + size].decode("utf-8", "replace"))
        at += 4 + max(size, 0)
    return found
