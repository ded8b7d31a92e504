//! A plain TCP relay: every byte is passed on as it comes, and none is looked at. It is the yardstick for what large results cost
//! a gateway.
//!
//!     mcp-relay LISTEN_ADDRESS UPSTREAM_ADDRESS

use tokio::net::{TcpListener, TcpStream};

/// Bytes read at once, each way. With tokio's 8 KiB the relay would need eight times as many system calls for a large result.
const BUFFER_BYTES: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(upstream)) = (arguments.next(), arguments.next()) else {
        return Err("usage: mcp-relay LISTEN_ADDRESS UPSTREAM_ADDRESS".into());
    };
    let listener = TcpListener::bind(&listen).await?;
    loop {
        let (client, _) = listener.accept().await?;
        let upstream = upstream.clone();
        tokio::spawn(async move {
            // A peer that closes its connection is expected.
            let _ = relay(client, &upstream).await;
        });
    }
}

async fn relay(mut client: TcpStream, upstream: &str) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES).await?;
    Ok(())
}
