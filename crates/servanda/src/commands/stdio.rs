//! `servanda stdio`: the gateway as a command that a client starts. Stdout carries only protocol messages.

use std::{
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll, ready},
};

use servanda_doors::{StdioOptions, for_engine};
use servanda_ledger::LedgerSchemaPolicy;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    failure::CommandFailure,
    policies,
    screen::{self, Screen},
    stopping::Stop,
    wiring::{AssembledGateway, reload::WatchedConfig},
};

pub(crate) async fn run(config: &Path, screen: Screen) -> Result<(), CommandFailure> {
    let files = WatchedConfig::read(config)?;
    screen::log::follow(&files.loaded.config.log);
    let gateway = AssembledGateway::assemble(&files.loaded, LedgerSchemaPolicy::Migrate, None).await?;
    super::migrate::tell(gateway.migration(), screen);
    if let Some(warning) = policies::warning(&files.loaded, &gateway.engine.authorities()) {
        screen.say(warning);
    }
    gateway.follow_upstreams();
    let stop = Stop::on_signals(files.loaded.config.limits.drain_ms_max)?;
    let mut options = StdioOptions::new(super::server_identity());
    options.drain_ms_max = u64::try_from(stop.door_max().as_millis()).unwrap_or(u64::MAX);
    let input = StoppingInput { input: tokio::io::stdin(), stop: stop.clone() };
    let (input, output) = (Box::new(input), Box::new(tokio::io::stdout()));
    let serving = for_engine::serve_stdio(gateway.engine.clone(), options, input, output, stop.requested.clone());
    Box::pin(super::serve::until_the_end(&gateway, &stop, Some(files), serving, screen)).await
}

/// The client's input. A client ends it to stop the gateway; the time to stop counts from there.
struct StoppingInput<I> {
    input: I,
    stop: Stop,
}

impl<I: AsyncRead + Unpin> AsyncRead for StoppingInput<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.stop.begin();
        }
        Poll::Ready(read)
    }
}
