//! The gateway's tools on a wire with namespaces.

use proptest::prelude::*;
use servanda_identity::layers::gateway::{UpstreamId, UpstreamTool};

use crate::LookupKey;

fn tools() -> impl Strategy<Value = UpstreamTool> {
    let names = prop_oneof!["[ab_.-]{0,4}", ".{0,3}", "x{50,130}", "[a-z]{1,3}_[0-9a-f]{8}", Just("docs".to_owned())];
    (prop_oneof!["[a-c]", "[a-c](_[a-c]|-){1,3}[a-c]", Just("docs".to_owned())], names)
        .prop_filter_map("an id", |(upstream, name)| Some(UpstreamTool { upstream: UpstreamId::new(&upstream)?, name }))
}

proptest! {
    /// No upstream's tool is looked up as a deferred one.
    #[test]
    fn upstream_tools_are_looked_up_in_their_namespace(tool in tools()) {
        let Some(address) = tool.address() else { return Ok(()) };
        let namespaced = matches!(LookupKey::of(&address), LookupKey::Namespaced { .. });
        prop_assert!(namespaced);
    }
}
