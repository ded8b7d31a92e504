"""A collector of spans: OTLP over HTTP and over gRPC, read with the official definitions (PyPI opentelemetry-proto)."""

import http.server
import threading
from concurrent import futures

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

SERVER, CLIENT = 2, 3


class Receiver:
    """Spans as they arrived, the bytes that they arrived in, and what was sent beside them."""

    def __init__(self):
        self.spans, self.bytes, self.shown, self.unknown = [], [], [], 0
        self.lock = threading.Lock()

    def take(self, request, received, shown):
        known = type(request).FromString(received)
        known.DiscardUnknownFields()
        with self.lock:
            self.unknown += known.SerializeToString(deterministic=True) != request.SerializeToString(deterministic=True)
            self.bytes.append(received)
            self.shown.append(shown)
            for of_resource in request.resource_spans:
                service = attributes(of_resource.resource).get("service.name")
                self.spans += [(service, span) for of_scope in of_resource.scope_spans for span in of_scope.spans]

    def of(self, service="servanda"):
        with self.lock:
            return [span for name, span in self.spans if name == service]


def attributes(holder):
    value = lambda any_value: getattr(any_value, any_value.WhichOneof("value"))
    return {attribute.key: value(attribute.value) for attribute in holder.attributes}


def over_http(receiver, port=0):
    """A server on the loopback; its address and what ends it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            good = self.path == "/v1/traces" and self.headers["content-type"] == "application/x-protobuf"
            if good:
                request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
                receiver.take(request, body, dict(self.headers.items()))
            answer = trace_service_pb2.ExportTraceServiceResponse().SerializeToString()
            self.send_response(200 if good else 404)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}", server.shutdown


def over_grpc(receiver):
    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request, context):
            shown = {pair.key: pair.value for pair in context.invocation_metadata()}
            receiver.take(request, request.SerializeToString(), shown)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return f"http://127.0.0.1:{port}", lambda: server.stop(None)
