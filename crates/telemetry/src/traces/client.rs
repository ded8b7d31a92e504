//! The HTTP client for a collector, and the transport that uses it.

use std::time::Duration;

use reqwest::{Client, redirect, retry};

use super::{
    grpc::GrpcTransport,
    http::HttpTransport,
    settings::{CollectorAddress, OtlpProtocol, TraceSettingsError},
    transport::SpanTransport,
};

/// How long connecting may take.
const CONNECT_MS_MAX: u64 = 5_000;

/// The transport to a collector.
pub(super) fn transport_to(collector: &CollectorAddress) -> Result<Box<dyn SpanTransport>, TraceSettingsError> {
    // What this machine's environment says about proxies is no configuration of ours.
    let builder = Client::builder()
        .user_agent(concat!("servanda/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .connect_timeout(Duration::from_millis(CONNECT_MS_MAX));
    let builder = match collector.protocol {
        OtlpProtocol::Http => builder,
        OtlpProtocol::Grpc => builder.http2_prior_knowledge(),
    };
    let client = builder.build().map_err(|error| TraceSettingsError::Client(error.without_url().to_string()))?;
    Ok(match collector.protocol {
        OtlpProtocol::Http => Box::new(HttpTransport::new(client, collector.clone())),
        OtlpProtocol::Grpc => Box::new(GrpcTransport::new(client, collector.clone())),
    })
}
