//! Both doors for [`Engine`]. The doors are generic over the gateway; here they are compiled for the engine, in this
//! crate and with its optimisation, so that the binary need not be compiled for speed. The futures are boxed, because
//! the code of an `async fn` is compiled by the crate that awaits it. Deliberately not here: anything a door does.

use std::{io, sync::Arc};

use servanda_engine::{Engine, PortFuture};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use crate::{HttpOptions, ServingOptions, StdioOptions, http, stdio};

/// Serves MCP over HTTP, as [`http::serve_with`] does.
pub fn serve_http(
    listener: TcpListener,
    engine: Arc<Engine>,
    options: HttpOptions,
    shutdown: CancellationToken,
    serving: ServingOptions,
) -> PortFuture<'static, io::Result<()>> {
    Box::pin(async move { http::serve_with(listener, http::router(engine, options), shutdown, serving).await })
}

/// Serves MCP over stdio, as [`stdio::serve`] does.
pub fn serve_stdio(
    engine: Arc<Engine>,
    options: StdioOptions,
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    shutdown: CancellationToken,
) -> PortFuture<'static, io::Result<()>> {
    Box::pin(async move { stdio::serve(engine, options, input, output, shutdown).await })
}
