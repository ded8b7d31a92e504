#!/usr/bin/env python3
"""A log by other means: C2SP's formats written once more, from the specifications, on Python's `hashlib` and `cryptography` (>= 48, for
ML-DSA-44). Writes oracle.json beside this file, which the tests compare their own files with. Run it again only to change the log.
"""
import base64
import hashlib
import json
import pathlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

SIZE = 70_000
LOG = "example.org/servanda"


def sha(data):
    return hashlib.sha256(data).digest()


def b64(data):
    return base64.b64encode(data).decode()


def leaf(index):
    return f"leaf {index}".encode() * (index % 5)


def root(hashes):
    if len(hashes) == 1:
        return hashes[0]
    middle = 1
    while middle * 2 < len(hashes):
        middle *= 2
    return sha(b"\1" + root(hashes[:middle]) + root(hashes[middle:]))


def path(index, hashes):
    if len(hashes) == 1:
        return []
    middle = 1
    while middle * 2 < len(hashes):
        middle *= 2
    if index < middle:
        return path(index, hashes[:middle]) + [root(hashes[middle:])]
    return path(index - middle, hashes[middle:]) + [root(hashes[:middle])]


def address(kind, index, width):
    parts = [f"{index % 1000:03}"]
    while index >= 1000:
        index //= 1000
        parts.insert(0, f"x{index % 1000:03}")
    return f"tile/{kind}/{'/'.join(parts)}" + (f".p/{width}" if width < 256 else "")


def files(leaves, hashes):
    found = {}
    for start in range(0, len(leaves), 256):
        part = leaves[start:start + 256]
        found[address("entries", start // 256, len(part))] = b"".join(struct.pack(">H", len(one)) + one for one in part)
    level = 0
    while hashes:
        for start in range(0, len(hashes), 256):
            part = hashes[start:start + 256]
            found[address(level, start // 256, len(part))] = b"".join(part)
        hashes = [root(hashes[start:start + 256]) for start in range(0, len(hashes) - 255, 256)]
        level += 1
    return found


def key_id(name, kind, key):
    return sha(name.encode() + b"\n" + bytes([kind]) + key)[:4]


def vkey(name, kind, key):
    return f"{name}+{key_id(name, kind, key).hex()}+{b64(bytes([kind]) + key)}"


def line(name, kind, key, signature):
    return f"\u2014 {name} {b64(key_id(name, kind, key) + signature)}\n"


def main():
    leaves = [leaf(index) for index in range(SIZE)]
    hashes = [sha(b"\0" + one) for one in leaves]
    top = root(hashes)
    text = f"{LOG}\n{SIZE}\n{b64(top)}\n"

    log = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
    log_key = log.public_key().public_bytes_raw()
    signed = text + "\n" + line(LOG, 1, log_key, log.sign(text.encode()))

    time, classic_name, quantum_name = 1_790_000_000, "witness.example/ed25519", "witness.example/ml-dsa"
    classic = Ed25519PrivateKey.from_private_bytes(b"\2" * 32)
    classic_key = classic.public_key().public_bytes_raw()
    statement = f"cosignature/v1\ntime {time}\n{text}".encode()
    signed += line(classic_name, 4, classic_key, struct.pack(">Q", time) + classic.sign(statement))

    quantum = MLDSA44PrivateKey.from_seed_bytes(b"\3" * 32)
    quantum_key = quantum.public_key().public_bytes_raw()
    statement = b"subtree/v1\n\0" + bytes([len(quantum_name)]) + quantum_name.encode() + struct.pack(">Q", time)
    statement += bytes([len(LOG)]) + LOG.encode() + struct.pack(">QQ", 0, SIZE) + top
    signed += line(quantum_name, 6, quantum_key, struct.pack(">Q", time) + quantum.sign(statement))

    policy = f"log {vkey(LOG, 1, log_key)}\n"
    policy += f"witness classic {vkey(classic_name, 4, classic_key)}\nwitness quantum {vkey(quantum_name, 6, quantum_key)}\n"
    policy += "group both all classic quantum\nquorum both\n"

    proofs = {}
    for index in [0, 255, 256, 65_535, 65_536, SIZE - 1]:
        hashes_up = "".join(b64(one) + "\n" for one in path(index, hashes))
        proofs[index] = f"c2sp.org/tlog-proof@v1\nextra {b64(b'salt')}\nindex {index}\n{hashes_up}\n{signed}"

    found = files(leaves, hashes)
    everything = hashlib.sha256()
    for name in sorted(found):
        everything.update(name.encode() + b"\0" + struct.pack(">Q", len(found[name])) + found[name])
    oracle = {
        "size": SIZE,
        "files": len(found),
        "files_sha256": b64(everything.digest()),
        "last_files": sorted(name for name in found if ".p/" in name),
        "roots": {size: b64(root(hashes[:size])) for size in [1, 2, 3, 255, 256, 257, 65_535, 65_536, 65_537]},
        "checkpoint": signed,
        "policy": policy,
        "proofs": proofs,
    }
    here = pathlib.Path(__file__).parent
    (here / "oracle.json").write_text(json.dumps(oracle, indent=1, ensure_ascii=False) + "\n")


main()
