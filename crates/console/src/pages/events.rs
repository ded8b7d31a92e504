//! News for the inbox: how many tickets were opened since the page was made. The list itself stays as it is, so that nothing moves under a
//! person's pointer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use servanda_doors::http::PageRequest;
use tokio::sync::watch;

use super::inbox::{self, InboxFilter};
use crate::{context::ConsoleContext, fault::PageFault, form, reply::ConsoleReply};

/// The time between two looks at the store. Another gateway may have opened a ticket, of which this one is not told.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// The shortest time between two looks, however much changes.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// New tickets that are counted.
const NEWS_MAX: usize = 50;

/// A stream of news.
struct InboxNews {
    context: Arc<ConsoleContext>,
    request: PageRequest,
    filter: InboxFilter,
    /// The newest ticket on the page.
    after: String,
    /// How many were reported last.
    reported: usize,
    changes: watch::Receiver<u64>,
    is_first: bool,
}

/// Opens the stream.
pub(crate) async fn open(context: &Arc<ConsoleContext>, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    // Checked here, so that a browser without a session is not answered with a stream. Neither opening the stream nor reading it keeps the
    // session in use: browsers open it again by themselves.
    context.viewer_without_use(&request.headers).await?;
    let news = InboxNews {
        filter: InboxFilter::read(request.uri.query()),
        after: form::parameter(request.uri.query(), "after").unwrap_or_default(),
        reported: 0,
        changes: context.approvals().changes(),
        context: Arc::clone(context),
        request: request.clone(),
        is_first: true,
    };
    let events = stream::unfold(news, |mut news| async move { news.next().await.map(|frame| (frame, news)) });
    Ok(ConsoleReply::events(Box::pin(events)))
}

impl InboxNews {
    /// The next event. None when the session ended.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                tokio::time::sleep(LOOK_PAUSE).await;
                // Whether a ticket changed or time passed, the store is looked at.
                drop(tokio::time::timeout(LOOK_EVERY, self.changes.changed()).await);
            }
            let count = match self.count().await {
                Ok(count) => count,
                Err(PageFault::SignedOut) => return None,
                // The store is asked again.
                Err(_) => continue,
            };
            if count != self.reported {
                self.reported = count;
                return Some(event(count, self.filter));
            }
        }
    }

    /// How many tickets are newer than the page.
    async fn count(&self) -> Result<usize, PageFault> {
        // The session is looked up each time, so that a stream ends with it.
        let viewer = self.context.viewer_without_use(&self.request.headers).await?;
        let seen = inbox::find(&self.context, &viewer, self.filter, None, NEWS_MAX).await?;
        Ok(seen.tickets.iter().filter(|ticket| ticket.id.as_str() > self.after.as_str()).count())
    }
}

/// One event: the link that loads the page again.
fn event(count: usize, filter: InboxFilter) -> Bytes {
    if count == 0 {
        return Bytes::from_static(b"data: <span></span>\n\n");
    }
    let shown = if count >= NEWS_MAX { format!("{NEWS_MAX} or more new") } else { format!("{count} new") };
    format!("data: <a class=\"news\" href=\"{}\">{shown} – show</a>\n\n", filter.address()).into()
}
