"""What every Python client of the trial shares: how results are written down, and the other direction of a session."""

import asyncio

MODERN = "2026-07-28"
# A cold Python server on a busy machine has been seen to take 30 s to its first answer.
REQUEST_SECONDS_MAX = 60
# A notification may come on another stream than the answer, and so after it.
TOLD_SECONDS_MAX = 5


def dump(model):
    # exclude_unset keeps what came over the wire: a null that was sent stays, a default that was not sent stays away.
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def error_of(error):
    data = getattr(error, "error", None)  # MCPError and McpError carry the JSON-RPC error; others are the client's own
    if hasattr(data, "code"):
        return {"kind": "jsonrpc", **dump(data)}
    if isinstance(error, BaseExceptionGroup):
        return error_of(error.exceptions[0])
    return {"kind": type(error).__name__, "message": str(error)}


class Exchange:
    """The other direction: what the server asked the client and told it, since the step began."""

    def __init__(self, declares, roots):
        self.declares, self.roots = declares, roots
        self.asked, self.told, self.answers = [], [], {}
        self.changed = asyncio.Event()

    def begin(self, answers):
        self.asked, self.told, self.answers = [], [], answers

    def ask(self, method, params):
        """Notes a request of the server's, and returns what this step answers it with."""
        self.asked.append({"method": method, "params": params})
        self.changed.set()
        if method == "roots/list":
            return {"roots": self.roots}
        if method not in self.answers:
            raise RuntimeError(f"no answer to {method} in this step")
        return self.answers[method]

    def tell(self, method, params):
        self.told.append({"method": method, "params": params})
        self.changed.set()

    async def until(self, holds):
        async def wait():
            while not holds():
                self.changed.clear()
                await self.changed.wait()

        try:
            await asyncio.wait_for(wait(), TOLD_SECONDS_MAX)
        except TimeoutError:
            pass  # the answer then shows what is missing
