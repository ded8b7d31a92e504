"""Spans of a client or an upstream, by OpenTelemetry's own SDK, sent to the receiver at once."""

import urllib.request

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult


class ToReceiver(SpanExporter):
    def __init__(self, address):
        self.address = address

    def export(self, spans):
        body = encode_spans(spans).SerializeToString()
        headers = {"content-type": "application/x-protobuf"}
        urllib.request.urlopen(urllib.request.Request(f"{self.address}/v1/traces", body, headers), timeout=30).close()
        return SpanExportResult.SUCCESS


def tracer(service, address):
    provider = TracerProvider(resource=Resource({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(ToReceiver(address)))
    return provider.get_tracer("trial")
