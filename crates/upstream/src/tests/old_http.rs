//! The transport of 2024-11-05, which is tried after the newer ones.

use servanda_mcp::ProtocolVersion;

use super::*;
use crate::UpstreamStatus;

#[tokio::test]
async fn a_server_of_the_old_transport_is_spoken_to_in_its_way() {
    let server = serve("old").await;
    let upstream = client(&server.url);
    echoes(&upstream).await;
    let UpstreamStatus::Ready { version, .. } = upstream.status() else { panic!("not ready") };
    assert_eq!(version, ProtocolVersion::V2024_11_05);
    let calls = (0..8).map(|_| echoes(&upstream));
    futures_util::future::join_all(calls).await;

    // When its stream ends, its connection is lost.
    let lost = failure(call(&upstream, "end-stream").await);
    assert!(matches!(&lost, PerformFailure::Died { why } if why.contains("stream of events ended")), "{lost}");
    echoes(&upstream).await;
    upstream.shutdown().await;
    assert_eq!(upstream.census(), (0, 0));
}

#[tokio::test]
async fn an_endpoint_elsewhere_does_not_get_our_headers() {
    let server = serve("old,elsewhere").await;
    let refused = failure(call(&client(&server.url), "echo").await);
    assert!(refused.provably_not_executed());
    assert!(refused.to_string().contains("another origin"), "{refused}");
}

#[tokio::test]
async fn a_server_without_any_transport_says_which_were_tried() {
    let server = serve("none").await;
    let refused = failure(call(&client(&server.url), "echo").await).to_string();
    assert!(refused.contains("the handshake failed") && refused.contains("2024-11-05"), "{refused}");
}
