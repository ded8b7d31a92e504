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
    /// Resources.
    pub const RESOURCES_LIST: &str = "resources/list";
    /// Templates of resources.
    pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
    /// A resource's content.
    pub const RESOURCES_READ: &str = "resources/read";
    /// Legacy: subscribes to a resource's changes.
    pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
    /// Legacy: ends that subscription.
    pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
    /// A resource changed.
    pub const RESOURCES_UPDATED: &str = "notifications/resources/updated";
    /// The list of resources changed.
    pub const RESOURCES_LIST_CHANGED: &str = "notifications/resources/list_changed";
    /// Prompts.
    pub const PROMPTS_LIST: &str = "prompts/list";
    /// A prompt, filled in.
    pub const PROMPTS_GET: &str = "prompts/get";
    /// The list of prompts changed.
    pub const PROMPTS_LIST_CHANGED: &str = "notifications/prompts/list_changed";
    /// Suggestions for an argument.
    pub const COMPLETE: &str = "completion/complete";
    /// Legacy: sets from which level on the client wants the server's log.
    pub const LOGGING_SET_LEVEL: &str = "logging/setLevel";
    /// A line of a server's log.
    pub const LOG_MESSAGE: &str = "notifications/message";
    /// Asks a client for its roots.
    pub const ROOTS_LIST: &str = "roots/list";
    /// Legacy: a client's roots changed.
    pub const ROOTS_LIST_CHANGED: &str = "notifications/roots/list_changed";
    /// Asks a client's model.
    pub const SAMPLING_CREATE: &str = "sampling/createMessage";
    /// Asks a client's user.
    pub const ELICITATION_CREATE: &str = "elicitation/create";
    /// Legacy: an elicitation by URL is done.
    pub const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";
    /// A task's state.
    pub const TASKS_GET: &str = "tasks/get";
    /// Modern: answers the questions of a task.
    pub const TASKS_UPDATE: &str = "tasks/update";
    /// Cancels a task.
    pub const TASKS_CANCEL: &str = "tasks/cancel";
    /// Legacy: waits for a task's result.
    pub const TASKS_RESULT: &str = "tasks/result";
    /// Legacy: lists the caller's tasks.
    pub const TASKS_LIST: &str = "tasks/list";
    /// Modern: a task's state changed.
    pub const TASKS_NOTIFICATION: &str = "notifications/tasks";
    /// Legacy: a task's state changed.
    pub const TASKS_STATUS: &str = "notifications/tasks/status";
    /// Cancels a request.
    pub const CANCELLED: &str = "notifications/cancelled";
    /// The progress of a request.
    pub const PROGRESS: &str = "notifications/progress";
    /// Modern: subscribes to notifications outside a request.
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
    /// Modern: from which level on this request wants the server's log.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Legacy: ties a message to a task.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// The token under which a request's progress is reported.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";
    /// The prefix of every member of ours. Members of a server with this prefix are not passed on.
    pub const OWN: &str = "servanda/";
    /// Ours, in answers: the call's id, how it ended, and what else a client uses.
    pub const CALL: &str = "servanda/call";
    /// Ours, in requests: `full` asks for everything that is known about the call, in its answer.
    pub const DETAIL: &str = "servanda/detail";
    /// Ours, in requests and in the answers to them: `true` asks what the call would do, without making it.
    pub const DRY_RUN: &str = "servanda/dry-run";
    /// Ours, in answers on request: the whole observation.
    pub const OBSERVATION: &str = "servanda/observation";
    /// Ours, in aggregated lists: upstreams that are missing from the page.
    pub const UNAVAILABLE: &str = "servanda/unavailable";
    /// Ours, in refusals: the upstream's own JSON-RPC error, as it wrote it.
    pub const UPSTREAM_ERROR: &str = "servanda/upstream-error";
    /// Ours, in questions to clients: the upstream that asks.
    pub const ASKED_BY: &str = "servanda/asked-by";
    /// Ours, in `tools/list`: side-effect class, and disposition, irreversibility and availability where they are not the usual ones.
    pub const CONTRACT: &str = "servanda/contract";
    /// Ours, in requests: how long the caller will still wait, in milliseconds.
    pub const CALLER_WAIT_MS: &str = "servanda/timeout-ms";
    /// Ours, in requests: groups the repairs of one intent.
    pub const CHAIN: &str = "servanda/chain";
    /// Ours, in requests: the key of the operation.
    pub const IDEMPOTENCY_KEY: &str = "servanda/idempotency-key";
    /// Ours, in requests: the business operation. Upstreams that deduplicate get it, too.
    pub const OPERATION_ID: &str = "servanda/operation-id";
    /// Ours, in requests: the step of the agent's plan.
    pub const STEP_ID: &str = "servanda/step-id";
    /// Ours, in requests: the workflow an operation belongs to.
    pub const WORKFLOW_ID: &str = "servanda/workflow-id";
    /// Ours, in requests: the run of a workflow.
    pub const RUN_ID: &str = "servanda/run-id";
    /// Ours, in requests: the task that the call belongs to, one of those that the operator declared.
    pub const TASK: &str = "servanda/task";
    /// Ours, in requests: `read`, `write` or `destructive`.
    pub const INTENT: &str = "servanda/intent";
    /// Ours, in requests: the id of an earlier call; the client means a call of the same kind.
    pub const LIKE: &str = "servanda/like";
}

/// Members of results and parameters that decide how a request continues.
pub mod member {
    /// Modern: the kind of the result.
    pub const RESULT_TYPE: &str = "resultType";
    /// Modern: the questions that a server asks before it continues.
    pub const INPUT_REQUESTS: &str = "inputRequests";
    /// Modern: the answers to them.
    pub const INPUT_RESPONSES: &str = "inputResponses";
    /// Modern: state that the client carries for the server.
    pub const REQUEST_STATE: &str = "requestState";
    /// The cursor of the next page, in lists.
    pub const NEXT_CURSOR: &str = "nextCursor";
    /// Data about the message itself.
    pub const META: &str = "_meta";
    /// The id of a task.
    pub const TASK_ID: &str = "taskId";
    /// Legacy: in a request, asks for a task; in the answer, the task.
    pub const TASK: &str = "task";
    /// An annotation of a tool's parameter: which header repeats it.
    pub const PARAM_HEADER: &str = "x-mcp-header";
}

/// Values of `resultType`.
pub mod result_type {
    /// The result itself.
    pub const COMPLETE: &str = "complete";
    /// The server needs answers first.
    pub const INPUT_REQUIRED: &str = "input_required";
    /// The result comes later.
    pub const TASK: &str = "task";
}

/// HTTP headers, lower case.
pub mod header {
    /// The revision of a request.
    pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
    /// Legacy session.
    pub const SESSION_ID: &str = "mcp-session-id";
    /// Modern: equals the body's method.
    pub const METHOD: &str = "mcp-method";
    /// Modern: the prefix of headers that repeat annotated arguments.
    pub const PARAM_PREFIX: &str = "mcp-param-";
    /// Legacy: the last event that the client got before its stream broke.
    pub const LAST_EVENT_ID: &str = "last-event-id";
    /// Modern: equals the body's tool, prompt or URI.
    pub const NAME: &str = "mcp-name";
    /// The idempotency key of an operation.
    pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
}
