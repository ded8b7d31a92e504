//! Reads the text that says where PostgreSQL is: a URL, or libpq's `keyword=value` pairs.
//!
//! The driver understands neither `sslmode=verify-full` nor the names of certificate files, and refuses
//! parameters that it does not know. This module takes out the TLS parameters and leaves the rest to the
//! driver. Deliberately not here: what TLS then checks.

use std::{
    borrow::Cow,
    net::IpAddr,
    path::{Path, PathBuf},
    str::FromStr as _,
};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::tls::{CertificateChecks, ClientIdentity, TlsRequirements, TlsTrustedRoots};
use crate::LedgerError;

/// Parameters of libpq that protect a connection in a way that is not implemented here. Ignoring them would
/// protect less than the operator asked for.
const NOT_BUILT: [&str; 11] = [
    "gssencmode",
    "requiressl",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkeylogfile",
    "sslpassword",
    "sslsni",
];

/// Where a database is, and how the connection to it is protected.
#[derive(Debug)]
pub(super) struct PostgresAddress {
    pub(super) config: Config,
    /// None if the connection uses no TLS.
    pub(super) tls: Option<TlsRequirements>,
}

/// The parameters that the driver does not read.
#[derive(Debug, Default)]
struct TlsParameters {
    mode: Option<String>,
    root_certificates: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl PostgresAddress {
    /// Reads the text. No error repeats parts of it, because it may contain a password.
    pub(super) fn read(text: &str) -> Result<Self, LedgerError> {
        let mut parameters = TlsParameters::default();
        let rest = match split_url(text) {
            Some((head, query)) => take_from_query(head, query, &mut parameters)?,
            None if is_url(text) => text.to_owned(),
            None => take_from_keywords(text, &mut parameters)?,
        };
        let mut config = Config::from_str(&rest).map_err(|_| {
            LedgerError::Url("it is not like `postgres://user@host/database`, or has an unknown option".to_owned())
        })?;
        let tls = tls_requirements(&parameters, &config)?;
        config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if tls.is_some() && config.get_hosts().is_empty() {
            // The certificate is compared with the host. If only an address is given, the address is the host.
            for address in config.get_hostaddrs().to_vec() {
                config.host(address.to_string());
            }
        }
        Ok(Self { config, tls })
    }
}

impl TlsParameters {
    /// Keeps a parameter if it is a TLS parameter. Returns whether it was.
    fn take(&mut self, key: &str, value: Cow<'_, str>) -> Result<bool, LedgerError> {
        let place = match key {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root_certificates,
            "sslcert" => &mut self.certificate,
            "sslkey" => &mut self.key,
            _ => {
                return match NOT_BUILT.iter().find(|name| **name == key) {
                    Some(name) => Err(LedgerError::Url(format!("`{name}` is not supported here; leave it out"))),
                    None => Ok(false),
                };
            }
        };
        // As in libpq, the last one counts, and an empty one counts as absent.
        *place = Some(value.into_owned()).filter(|value| !value.is_empty());
        Ok(true)
    }
}

fn is_url(text: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme))
}

/// A URL up to and including its `?`, and what follows. The driver takes everything up to the first `@` for
/// user and password, so that a `?` before it belongs to them.
fn split_url(text: &str) -> Option<(&str, &str)> {
    if !is_url(text) {
        return None;
    }
    let after_user = text.find('@').map_or(0, |at| at + 1);
    let question = after_user + text.get(after_user..)?.find('?')?;
    text.split_at_checked(question + 1)
}

fn take_from_query(head: &str, query: &str, parameters: &mut TlsParameters) -> Result<String, LedgerError> {
    let mut others = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let taken = match pair.split_once('=') {
            Some((key, value)) => {
                let not_text = |_| LedgerError::Url("one of its options is not UTF-8".to_owned());
                let key = percent_decode_str(key).decode_utf8().map_err(not_text)?;
                match percent_decode_str(value).decode_utf8() {
                    Ok(value) => parameters.take(&key, value)?,
                    Err(_) => false,
                }
            }
            None => false,
        };
        if !taken {
            others.push(pair);
        }
    }
    Ok(format!("{head}{}", others.join("&")))
}

/// Cuts our parameters out of `keyword=value` pairs; everything else stays as it was written.
fn take_from_keywords(text: &str, parameters: &mut TlsParameters) -> Result<String, LedgerError> {
    let (mut others, mut rest) = (String::new(), text.trim_start());
    while !rest.is_empty() {
        // The driver refuses what is not a pair.
        let Some((key, after)) = rest.split_once('=') else { return Ok(others + rest) };
        let Some((value, next)) = keyword_value(after.trim_start()) else { return Ok(others + rest) };
        if !parameters.take(key.trim(), Cow::Owned(value))? {
            others.push_str(rest.get(..rest.len() - next.len()).unwrap_or_default());
            others.push(' ');
        }
        rest = next.trim_start();
    }
    Ok(others)
}

/// A value, quoted or not, and what follows it. None if a quote is not closed.
fn keyword_value(text: &str) -> Option<(String, &str)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Some((value, text.get(index + 1..)?)),
            space if !quoted && space.is_whitespace() => return Some((value, text.get(index..)?)),
            other => value.push(other),
        }
    }
    (!quoted).then_some((value, ""))
}

/// The TLS requirements. Between machines TLS is used and checked unless the text says otherwise; on this
/// machine only if the text asks for it.
fn tls_requirements(parameters: &TlsParameters, config: &Config) -> Result<Option<TlsRequirements>, LedgerError> {
    let refused = |why: &str| Err(LedgerError::Url(why.to_owned()));
    let away = leaves_this_machine(config);
    let checks = match parameters.mode.as_deref() {
        Some("disable") => return without_tls(parameters),
        None | Some("prefer") if !away => return without_tls(parameters),
        Some("prefer" | "allow") => {
            return refused(
                "`sslmode=prefer` and `allow` let the server choose to go without TLS, and the host is not this machine: \
                 say `sslmode=verify-full`, or `sslmode=disable` if the network is trusted",
            );
        }
        None | Some("require" | "verify-full") => CertificateChecks::IssuerAndName,
        Some("verify-ca") => CertificateChecks::Issuer,
        Some("no-verify") => CertificateChecks::Nothing,
        Some(_) => {
            return refused("`sslmode` is one of disable, prefer, require, verify-ca, verify-full and no-verify");
        }
    };
    if config.get_hosts().iter().any(|host| matches!(host, Host::Unix(_))) {
        return refused("PostgreSQL has no TLS on a Unix socket: leave `sslmode` out, or name the host by TCP");
    }
    let roots = match parameters.root_certificates.as_deref() {
        None | Some("system") => TlsTrustedRoots::System,
        Some(_) if checks == CertificateChecks::Nothing => {
            return refused(
                "`sslmode=no-verify` checks no certificate, so that `sslrootcert` would not be used: \
                            leave one of them out",
            );
        }
        Some(path) => TlsTrustedRoots::File(absolute("sslrootcert", path)?),
    };
    let identity = match (&parameters.certificate, &parameters.key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => {
            Some(ClientIdentity { certificate: absolute("sslcert", certificate)?, key: absolute("sslkey", key)? })
        }
        _ => return refused("`sslcert` and `sslkey` belong together: name both files, or neither"),
    };
    Ok(Some(TlsRequirements { checks, roots, identity }))
}

/// Certificate files without TLS are a mistake: the operator expects protection that is not there.
fn without_tls(parameters: &TlsParameters) -> Result<Option<TlsRequirements>, LedgerError> {
    let TlsParameters { root_certificates, certificate, key, .. } = parameters;
    if root_certificates.is_some() || certificate.is_some() || key.is_some() {
        return Err(LedgerError::Url(
            "it names certificates but would go without TLS: say `sslmode=verify-full`, or leave `sslrootcert`, \
             `sslcert` and `sslkey` out"
                .to_owned(),
        ));
    }
    Ok(None)
}

/// Commands run in any folder, so a relative path would mean another file each time.
fn absolute(parameter: &str, path: &str) -> Result<PathBuf, LedgerError> {
    let path = Path::new(path);
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    Err(LedgerError::Url(format!("`{parameter}` is not an absolute path: write it from `/` on")))
}

fn leaves_this_machine(config: &Config) -> bool {
    config.get_hosts().iter().any(|host| match host {
        Host::Tcp(name) => name != "localhost" && !name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()),
        Host::Unix(_) => false,
    }) || config.get_hostaddrs().iter().any(|address| !address.is_loopback())
}

#[cfg(test)]
mod tests;
