"""The sample company as an upstream that takes part in traces: its server, and in front of it OpenTelemetry's SDK, which makes a span for
each call with the parent that the gateway named in `_meta`. What arrived is kept, one line a call.

usage: upstream.py RECEIVER KEPT SERVANDA
"""

import json
import subprocess
import sys
import threading

from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import spans


def main():
    receiver, kept, servanda = sys.argv[1:]
    tracer = spans.tracer("company", receiver)
    server = subprocess.Popen([servanda, "sample"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def answers():
        for line in server.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    back = threading.Thread(target=answers)
    back.start()
    with open(kept, "a") as file:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message.get("method") == "tools/call":
                meta = message["params"].get("_meta", {})
                print(json.dumps(meta.get("traceparent")), file=file, flush=True)
                context = TraceContextTextMapPropagator().extract(meta)
                with tracer.start_as_current_span(message["params"]["name"], context=context, kind=SpanKind.SERVER):
                    pass
            server.stdin.write(line)
            server.stdin.flush()
    server.stdin.close()
    server.wait()
    back.join()


if __name__ == "__main__":
    main()
