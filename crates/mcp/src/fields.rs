//! Names of methods, `_meta` members and headers, each written once.

/// Methods and notifications.
pub mod method {
    /// Legacy handshake.
    pub const INITIALIZE: &str = "initialize";
    /// Legacy handshake, third leg.
    pub const INITIALIZED: &str = "notifications/initialized";
    /// Modern capabilities.
    pub const DISCOVER: &str = "server/discover";
    /// Legacy liveness.
    pub const PING: &str = "ping";
    /// Tools.
    pub const TOOLS_LIST: &str = "tools/list";
    /// A call.
    pub const TOOLS_CALL: &str = "tools/call";
    /// The tool list changed.
    pub const TOOLS_LIST_CHANGED: &str = "notifications/tools/list_changed";
    /// A request is not wanted any more.
    pub const CANCELLED: &str = "notifications/cancelled";
    /// How far a request has come.
    pub const PROGRESS: &str = "notifications/progress";
    /// Modern notifications outside a request.
    pub const SUBSCRIPTIONS_LISTEN: &str = "subscriptions/listen";
    /// What a listen request is granted.
    pub const SUBSCRIPTIONS_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
}

/// `_meta` members.
pub mod meta {
    /// Modern, required.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Modern, required.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Modern, self-reported.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Modern, self-reported.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Modern, ties a notification to its listen request.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// Where progress of a request goes.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";
    /// Ours, in answers: the whole observation.
    pub const OBSERVATION: &str = "servanda/observation";
    /// Ours, in `tools/list`: side-effect class, disposition, identity.
    pub const CONTRACT: &str = "servanda/contract";
    /// Ours, in requests: how long the caller will still wait, in milliseconds.
    pub const CALLER_WAIT_MS: &str = "servanda/timeout-ms";
    /// Ours, in requests: what ties repairs of one intent together.
    pub const CHAIN: &str = "servanda/chain";
}

/// HTTP headers, lower case.
pub mod header {
    /// The revision of a request.
    pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
    /// Legacy session.
    pub const SESSION_ID: &str = "mcp-session-id";
    /// Modern: equals the body's method.
    pub const METHOD: &str = "mcp-method";
    /// Modern: equals the body's tool, prompt or URI.
    pub const NAME: &str = "mcp-name";
}
