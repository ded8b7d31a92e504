//! `servanda stdio`: the gateway as a command that a client starts. Stdout belongs to the protocol.

use std::{
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll, ready},
};

use servanda_doors::{StdioOptions, for_engine};
use servanda_ledger::Schema;
use tokio::io::{AsyncRead, ReadBuf};

use crate::{
    failure::Failure,
    policies,
    screen::Screen,
    stopping::Stop,
    wiring::{Station, reload::Files},
};

pub(crate) async fn run(config: &Path, screen: Screen) -> Result<(), Failure> {
    let files = Files::read(config)?;
    let station = Station::assemble(&files.loaded, Schema::Migrate, None).await?;
    super::migrate::tell(station.migration(), screen);
    if let Some(warning) = policies::warning(&files.loaded, &station.engine.authorities()) {
        screen.say(warning);
    }
    station.follow_upstreams();
    let stop = Stop::on_signals(files.loaded.config.limits.drain_ms_max)?;
    let mut options = StdioOptions::new(super::server_identity());
    options.drain_ms_max = u64::try_from(stop.door_max().as_millis()).unwrap_or(u64::MAX);
    let input = UntilEnd { input: tokio::io::stdin(), stop: stop.clone() };
    let (input, output) = (Box::new(input), Box::new(tokio::io::stdout()));
    let serving = for_engine::serve_stdio(station.engine.clone(), options, input, output, stop.told.clone());
    Box::pin(super::serve::until_the_end(&station, &stop, Some(files), serving, screen)).await
}

/// The client's input. Its end is how a client tells the gateway to end, and the time for that counts from there.
struct UntilEnd<I> {
    input: I,
    stop: Stop,
}

impl<I: AsyncRead + Unpin> AsyncRead for UntilEnd<I> {
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
