"""The official Python client (`mcp` 1.x or 2.x, whichever is installed) against a gateway that it knows nothing of but the
address: it finds the provider by itself, gets a token, lists, calls, and asks for more scopes when it is told to.

    python client.py --url http://127.0.0.1:PORT/mcp

Prints one JSON document: what each step came to, and every HTTP exchange as method, path, status and challenge.
"""

import argparse
import asyncio
import importlib
import json
import sys
from importlib.metadata import version
from urllib.parse import parse_qs, urlsplit

sys.dont_write_bytecode = True

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

IS_VERSION_1 = version("mcp").startswith("1.")
httpx = importlib.import_module("httpx" if IS_VERSION_1 else "httpx2")
REDIRECT = "http://127.0.0.1:1/callback"
SECONDS_MAX = 60


class Storage:
    """In memory: a restarted client has no tokens."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Browser:
    """The user's browser; the user has already agreed."""

    def __init__(self):
        self.answer = None

    async def visit(self, url):
        async with httpx.AsyncClient() as client:
            response = await client.get(url)
        assert response.status_code == 302, response.text
        self.answer = {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}

    async def come_back(self):
        code, state, issuer = self.answer["code"], self.answer.get("state"), self.answer.get("iss")
        if IS_VERSION_1:
            return code, state
        from mcp.client.auth import AuthorizationCodeResult

        fields = AuthorizationCodeResult.model_fields
        return AuthorizationCodeResult(**{k: v for k, v in {"code": code, "state": state, "iss": issuer}.items() if k in fields})


def words(result):
    return "".join(getattr(block, "text", "") for block in result.content)


async def step(act):
    try:
        return await asyncio.wait_for(act(), SECONDS_MAX)
    except BaseException as error:  # the 1.x transport ends its task group, which cancels
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return {"failed": f"{type(error).__name__}: {error}"}


async def call(session, name, arguments):
    result = await session.call_tool(name, arguments)
    is_error = result.isError if IS_VERSION_1 else result.is_error
    return {"is_error": bool(is_error), "text": words(result)[:400]}


async def main(url, pays):
    exchanges, browser, storage = [], Browser(), Storage()

    async def heard(response):
        request = response.request
        exchanges.append({
            "method": request.method,
            "path": request.url.path,
            "status": response.status_code,
            "challenge": response.headers.get("www-authenticate"),
        })

    metadata = OAuthClientMetadata(
        client_name="trial", redirect_uris=[REDIRECT], grant_types=["authorization_code"], response_types=["code"],
        token_endpoint_auth_method="none",
    )
    auth = OAuthClientProvider(
        server_url=url, client_metadata=metadata, storage=storage, redirect_handler=browser.visit,
        callback_handler=browser.come_back,
    )
    answers = {}
    try:
        async with httpx.AsyncClient(auth=auth, timeout=SECONDS_MAX, event_hooks={"response": [heard]}) as http:
            async with streamable_http_client(url, http_client=http) as streams:
                async with ClientSession(streams[0], streams[1]) as session:
                    await asyncio.wait_for(session.initialize(), SECONDS_MAX)

                    async def tools():
                        return sorted(tool.name for tool in (await session.list_tools()).tools)

                    answers["tools"] = await step(tools)
                    answers["read"] = await step(lambda: call(session, "company__get_invoice", {"invoice_id": "inv_1001"}))
                    answers["first_token"] = storage.tokens.access_token
                    answers["write"] = await step(lambda: call(session, "company__pay_invoice", pays))
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        answers["ended"] = f"{type(error).__name__}: {error}"
    print(json.dumps({"client": f"mcp {version('mcp')}", "answers": answers, "exchanges": exchanges}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--pays", required=True, help="the arguments of the payment")
    options = parser.parse_args()
    asyncio.run(main(options.url, json.loads(options.pays)))
