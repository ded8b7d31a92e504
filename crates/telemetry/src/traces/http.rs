//! OTLP over HTTP: the message is the body of a `POST`.

use bytes::Bytes;
use reqwest::{Client, StatusCode, header::CONTENT_TYPE};

use super::{
    otlp::OtlpExportResponse,
    settings::CollectorAddress,
    transport::{CollectorAnswer, SendFuture, SpanSendFailure, SpanTransport},
};

#[derive(Debug)]
pub(super) struct HttpTransport {
    client: Client,
    collector: CollectorAddress,
}

impl HttpTransport {
    pub(super) const fn new(client: Client, collector: CollectorAddress) -> Self {
        Self { client, collector }
    }

    async fn post(&self, message: Bytes) -> Result<u64, SpanSendFailure> {
        let CollectorAddress { url, headers, .. } = &self.collector;
        let posting = self.client.post(url.clone()).headers(headers.clone());
        let posting = posting.header(CONTENT_TYPE, "application/x-protobuf").body(message);
        let response = posting.send().await.map_err(SpanSendFailure::of_error)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(SpanSendFailure::of_status(status, response.headers()));
        }
        let answer = CollectorAnswer::read(response).await?;
        Ok(OtlpExportResponse::rejected_spans(&answer.body))
    }
}

impl SpanTransport for HttpTransport {
    fn send(&self, message: Bytes) -> SendFuture<'_> {
        Box::pin(self.post(message))
    }
}
