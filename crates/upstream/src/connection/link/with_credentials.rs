//! Makes a request with credentials: asks the sources for them, puts them in and sends it. If the server does not accept them, asks the
//! sources what else there is and makes the request again. Nothing is repeated here for any other reason.

use std::time::Duration;

use tokio::time::Instant;

use super::Wire;
use crate::{
    NotPresented, PerformFailure, REJECTIONS_MAX, Rejection, Remedy,
    credentials::{Credentials, Held, header_map, in_time},
    request::{Ended, Outgoing, Terms},
};

impl Wire {
    /// Makes a request and waits for its end. Not cancel safe: a dropped request may still be executed.
    pub(super) async fn exchange_showing(
        &self,
        credentials: &Credentials,
        request: Outgoing<'_>,
        terms: Terms,
    ) -> Ended {
        let conversations = self.conversations();
        let setting = conversations.setting();
        let deadline = Instant::now() + Duration::from_millis(setting.spec.limits.connect_ms_max);
        let errand = request.errand.clone().unwrap_or_else(|| setting.errand(conversations.counterpart(), deadline));
        let mut rejected_before = 0;
        loop {
            let held = match in_time(&terms, credentials.present(&setting.redaction, &errand)).await {
                Ok(Ok(held)) => held,
                Ok(Err(why)) => return Ended::Failed(PerformFailure::NotPresented(why)),
                Err(failure) => return Ended::Failed(failure),
            };
            let attempt = match showing(credentials, &request, &held) {
                Ok(attempt) => attempt,
                Err(why) => return Ended::Failed(PerformFailure::NotPresented(why)),
            };
            let ended = self.exchange_once(attempt, terms.clone()).await;
            let Ended::NotLetIn { failure, rejection } = ended else { return ended };
            let rejection = Rejection { rejected_before, ..rejection };
            if rejected_before >= REJECTIONS_MAX {
                return Ended::Failed(failure);
            }
            match in_time(&terms, credentials.rejected(&errand, &rejection)).await {
                Ok(Remedy::TryAgain) => rejected_before += 1,
                Ok(Remedy::GiveUp(why)) => {
                    return Ended::Failed(PerformFailure::NotLetIn { status: rejection.status, why });
                }
                Err(_) => return Ended::Failed(failure),
            }
        }
    }
}

/// The request with what is presented.
fn showing<'a>(credentials: &Credentials, request: &Outgoing<'a>, held: &Held) -> Result<Outgoing<'a>, NotPresented> {
    Ok(Outgoing {
        body: credentials.body(request, &held.presented)?,
        shown: header_map(&held.presented.headers)?,
        ..Outgoing::new(request.id, request.method, request.version, Vec::new())
            .about(request.name, request.param_headers)
            .keyed(request.key_header)
    })
}
