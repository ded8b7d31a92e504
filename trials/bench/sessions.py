"""Idle sessions: many clients that initialize and then send nothing."""
import http.client
import json
import urllib.parse

from measure import LEGACY


def opened(url, count):
    """Opens this many sessions over one connection; returns their ids, and the first failure if one was refused."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    ready = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    ids = []
    for _ in range(count):
        answer = asked(connection, "POST", place.path, body, headers)
        if answer.status != 200:
            return ids, f"after {len(ids)} sessions: HTTP {answer.status}"
        ids.append(answer.headers["mcp-session-id"])
        own = {**headers, "mcp-session-id": ids[-1], "mcp-protocol-version": LEGACY}
        asked(connection, "POST", place.path, ready, own)
    connection.close()
    return ids, None


def asked(connection, method, path, body, headers):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    return answer
