//! Makes a request with credentials: asks the sources for them, adds them and sends the request. If the server does not accept them, asks
//! the sources for others and makes the request again. It repeats a request for no other reason.

use std::time::Duration;

use tokio::time::Instant;

use super::Wire;
use crate::{
    CredentialRejection, MissingCredential, PerformFailure, REJECTIONS_MAX, Remedy,
    credentials::{Credentials, RedactedCredentials, header_map, within_deadline},
    request::{ExchangeEnd, WireRequest, WireRequestTerms},
};

impl Wire {
    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(super) async fn exchange_with_credentials(
        &self,
        credentials: &Credentials,
        request: WireRequest<'_>,
        terms: WireRequestTerms,
    ) -> ExchangeEnd {
        let conversations = self.conversations();
        let context = conversations.context();
        let deadline = Instant::now() + Duration::from_millis(context.spec.limits.connect_ms_max);
        let credential_request = request
            .credential_request
            .clone()
            .unwrap_or_else(|| context.credential_request(conversations.requester(), deadline));
        let mut rejected_before = 0;
        loop {
            let held = match within_deadline(&terms, credentials.present(&context.redaction, &credential_request)).await
            {
                Ok(Ok(held)) => held,
                Ok(Err(why)) => return ExchangeEnd::Failed(PerformFailure::NotPresented(why)),
                Err(failure) => return ExchangeEnd::Failed(failure),
            };
            let attempt = match add_credentials(credentials, &request, &held) {
                Ok(attempt) => attempt,
                Err(why) => return ExchangeEnd::Failed(PerformFailure::NotPresented(why)),
            };
            let ended = self.exchange_once(attempt, terms.clone()).await;
            let ExchangeEnd::NotLetIn { failure, rejection } = ended else { return ended };
            let rejection = CredentialRejection { rejected_before, ..rejection };
            if rejected_before >= REJECTIONS_MAX {
                return ExchangeEnd::Failed(failure);
            }
            match within_deadline(&terms, credentials.rejected(&credential_request, &rejection)).await {
                Ok(Remedy::TryAgain) => rejected_before += 1,
                Ok(Remedy::GiveUp(why)) => {
                    return ExchangeEnd::Failed(PerformFailure::NotLetIn { status: rejection.status, why });
                }
                Err(_) => return ExchangeEnd::Failed(failure),
            }
        }
    }
}

/// Adds the credentials to the request.
fn add_credentials<'a>(
    credentials: &Credentials,
    request: &WireRequest<'a>,
    held: &RedactedCredentials,
) -> Result<WireRequest<'a>, MissingCredential> {
    Ok(WireRequest {
        body: credentials.body(request, &held.presented)?,
        credential_headers: header_map(&held.presented.headers)?,
        ..WireRequest::new(request.id, request.method, request.version, Vec::new())
            .with_name(request.name, request.param_headers)
            .with_key_header(request.key_header)
            .with_trace_parent(request.trace_parent)
    })
}
