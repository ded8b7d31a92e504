//! News for the list of calls: how many were recorded since the page was made. The list itself stays as it is.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use servanda_doors::http::PageRequest;
use servanda_effects::call_history::{HistoryPosition, HistoryQuery};

use super::filter::CallsFilter;
use crate::{context::ConsoleContext, fault::PageFault, form, reply::ConsoleReply};

/// The time between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// New calls that are counted.
const NEWS_MAX: u32 = 50;

/// A stream of news.
struct CallNews {
    context: Arc<ConsoleContext>,
    request: PageRequest,
    filter: CallsFilter,
    /// The newest call on the page.
    after: HistoryPosition,
    /// How many were reported last.
    reported: usize,
    is_first: bool,
}

/// Opens the stream.
pub(crate) async fn open(context: &Arc<ConsoleContext>, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    // Neither opening the stream nor reading it keeps the session in use: browsers open it again by themselves.
    context.viewer_without_use(&request.headers).await?;
    let after = form::parameter(request.uri.query(), "after").and_then(|text| text.parse().ok());
    let from_now = || HistoryPosition { received_ms: context.now().unix_ms(), call_id: String::new() };
    let news = CallNews {
        // The address of news names no page.
        filter: CallsFilter::read(request.uri.query()),
        after: after.unwrap_or_else(from_now),
        reported: 0,
        context: Arc::clone(context),
        request: request.clone(),
        is_first: true,
    };
    let events = stream::unfold(news, |mut news| async move { news.next().await.map(|frame| (frame, news)) });
    Ok(ConsoleReply::events(Box::pin(events)))
}

impl CallNews {
    /// The next event. None when the session ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            let count = match self.count().await {
                Ok(count) => count,
                Err(PageFault::SignedOut) => return None,
                // The store is asked again.
                Err(_) => continue,
            };
            if count != self.reported {
                self.reported = count;
                return Some(event(count, &self.filter.address_live(true)));
            }
        }
    }

    /// How many calls are newer than the page.
    async fn count(&self) -> Result<usize, PageFault> {
        // The session is looked up each time, so that a stream ends with it, and roles are those of now.
        let viewer = self.context.viewer_without_use(&self.request.headers).await?;
        let query = self.filter.query(&viewer, self.context.now(), NEWS_MAX);
        let since_ms = query.since_ms.max(Some(self.after.received_ms));
        let newer = self.context.history.list_calls(HistoryQuery { since_ms, ..query }).await?;
        Ok(newer.calls.iter().filter(|record| HistoryPosition::of(record) > self.after).count())
    }
}

/// One event: the link that loads the page again.
fn event(count: usize, address: &str) -> Bytes {
    if count == 0 {
        return Bytes::from_static(b"data: <span></span>\n\n");
    }
    let is_all = u32::try_from(count).is_ok_and(|count| count < NEWS_MAX);
    let shown = if is_all { format!("{count} new") } else { format!("{NEWS_MAX} or more new") };
    // Everything in an address of ours is percent-encoded but what joins its fields.
    let href = address.replace('&', "&amp;");
    format!("data: <a class=\"news\" href=\"{href}\">{shown} – show</a>\n\n").into()
}
