//! What `telemetry.traces` accepts, and that no error shows a secret.

use std::path::PathBuf;

use super::*;
use crate::Config;

fn loaded(traces: &str) -> LoadedConfig {
    let text = format!("servanda: 1\nupstreams: {{}}\ntelemetry:\n  traces: {traces}\n");
    let config = Config::from_document("servanda.yaml", &text).unwrap();
    let file = PathBuf::from("servanda.yaml");
    LoadedConfig { config, folder: PathBuf::from("."), file, had_policies: false }
}

fn settings(traces: &str) -> Result<Option<TraceSettings>, String> {
    let loaded = loaded(traces);
    loaded.check().map_err(|error| error.to_string())?;
    let reveal = |_: &SecretReference| Ok(Secret::new(b"t0p-secret".to_vec()));
    loaded.traces(reveal).map_err(|error| error.to_string())
}

#[test]
fn defaults() {
    let made = settings("{endpoint: 'http://127.0.0.1:4318'}").unwrap().unwrap();
    let TraceSettings { sample_share, slow_ms, queue_spans_max, send_ms_max, service_name, .. } = made;
    assert!((sample_share - 1.0).abs() < f64::EPSILON);
    assert_eq!((slow_ms, queue_spans_max, send_ms_max), (1_000, 16_384, 10_000));
    assert_eq!(service_name, "servanda");
    let none = LoadedConfig { config: Config::new(std::collections::BTreeMap::new()), ..loaded("null") };
    assert!(none.traces(|_| Err("not asked".to_owned())).unwrap().is_none());
}

#[test]
fn impossible_values_name_their_field() {
    let table = [
        ("sample: 1.5", "telemetry.traces.sample"),
        ("sample: -0.1", "telemetry.traces.sample"),
        ("sample: .nan", "telemetry.traces.sample"),
        ("queue_spans_max: 1", "telemetry.traces.queue_spans_max"),
        ("send_ms_max: 0", "telemetry.traces.send_ms_max"),
        ("service_name: ''", "telemetry.traces.service_name"),
        ("headers: {host: x}", "telemetry.traces.headers"),
        ("headers: {authorization: '${NO_SUCH_VARIABLE_OF_OURS}'}", "telemetry.traces.headers"),
        ("credential: {secret: 'env:OTLP'}", "telemetry.traces.credential"),
        ("credential: {secret: 't0p-secret', header: authorization}", "telemetry.traces.credential"),
        ("credential: {secret: 'env:OTLP', argument: /a}", "telemetry.traces.credential"),
        ("credential: {secret: 'env:OTLP', header: a, format: 'Bearer'}", "telemetry.traces.credential"),
    ];
    for (member, field) in table {
        let error = settings(&format!("{{endpoint: 'http://127.0.0.1:4318', {member}}}")).unwrap_err();
        assert!(error.contains(field) && !error.contains("t0p"), "{member}: {error}");
    }
    let error = settings("{endpoint: 'https://ada:t0p@collector.example'}").unwrap_err();
    assert!(error.contains("telemetry.traces.endpoint") && !error.contains("t0p"), "{error}");
}

#[test]
fn secrets_go_out_encrypted_or_stay_on_this_machine() {
    let credential = "credential: {secret: 'store:otlp', header: authorization, format: 'Bearer {}'}";
    for near in ["http://127.0.0.1:4317", "https://collector.example:4317"] {
        let made = settings(&format!("{{endpoint: '{near}', protocol: grpc, {credential}}}")).unwrap().unwrap();
        assert!(!format!("{made:?}").contains("t0p"));
    }
    for shown in [credential, "headers: {authorization: t0p}"] {
        let traces = format!("{{endpoint: 'http://collector.example:4317', {shown}}}");
        let error = settings(&traces).unwrap_err();
        assert!(error.contains("https") && !error.contains("t0p"), "{error}");
        assert!(!format!("{:?}", loaded(&traces).config.telemetry).contains("t0p"));
    }
}
