//! A person's browser at the console, as far as a trial needs one: it signs in with a key, reads a page, and sends the page's form back
//! as it stands, with what the person filled in. It knows no field that the form does not show, so that a form may get more of them.

use std::{net::SocketAddr, time::Duration};

use crate::http::{Message, Wire, form, page};

const PATIENCE: Duration = Duration::from_secs(20);
/// The page on which a person reads what was changed, and the page itself: a form is sent at most so often.
const SENT_MAX: usize = 3;

/// A person who is signed in.
#[derive(Debug)]
pub struct PersonAtConsole {
    address: SocketAddr,
    cookie: String,
}

impl PersonAtConsole {
    /// Signs in at a gateway.
    pub async fn sign_in(address: SocketAddr, key: &str) -> Result<Self, String> {
        let mut person = Self { address, cookie: String::new() };
        let answer = person.send("/sign-in", Some(&[("key".to_owned(), key.to_owned())])).await?;
        let cookie = answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).map(str::to_owned);
        person.cookie = cookie.ok_or_else(|| format!("signing in gave {} and no cookie", answer.status()))?;
        Ok(person)
    }

    /// Allows calls like that of a ticket from now on, so many of them. What the console shows again before it holds is agreed to.
    pub async fn make_grant(&self, ticket: &str, uses: u64) -> Result<(), String> {
        self.fill_in(&format!("/grants/{ticket}"), &[("uses", &uses.to_string())]).await
    }

    /// Takes a grant back.
    pub async fn revoke_grant(&self, ticket: &str, reason: &str) -> Result<(), String> {
        self.fill_in(&format!("/grants/{ticket}"), &[("reason", reason)]).await
    }

    /// Sends the form of a page until the console leads to its result.
    async fn fill_in(&self, path: &str, filled: &[(&str, &str)]) -> Result<(), String> {
        let mut shown = self.send(path, None).await?;
        for _ in 0..SENT_MAX {
            let html = String::from_utf8_lossy(&shown.body).into_owned();
            let mut fields = fields(&html, path).ok_or_else(|| format!("{path} has no form: {}", words(&html)))?;
            for (name, value) in filled {
                fields.retain(|(known, _)| known != name);
                fields.push(((*name).to_owned(), (*value).to_owned()));
            }
            shown = self.send(path, Some(&fields)).await?;
            match shown.status() {
                303 => return Ok(()),
                200 => {}
                status => return Err(format!("{path}: {status}: {}", words(&String::from_utf8_lossy(&shown.body)))),
            }
        }
        Err(format!("{path} is shown again and again: {}", words(&String::from_utf8_lossy(&shown.body))))
    }

    async fn send(&self, path: &str, fields: Option<&[(String, String)]>) -> Result<Message, String> {
        let origin = format!("http://{}", self.address);
        let headers = [("sec-fetch-site", "same-origin"), ("origin", &origin), ("cookie", &self.cookie)];
        let request = match fields {
            Some(fields) => form(path, self.address, &headers, fields),
            None => page(path, self.address, &headers),
        };
        Wire::new(self.address).ask(&request, PATIENCE).await.map_err(|error| format!("{path}: {error}"))
    }
}

/// What a browser would send of the form with this address: every field with its present value, without boxes that are not ticked.
fn fields(html: &str, action: &str) -> Option<Vec<(String, String)>> {
    let form = html.split("<form ").find(|form| form.contains(&format!("action=\"{action}\"")))?;
    let inputs = form.split("</form>").next()?.split("<input ").skip(1).filter_map(|input| input.split('>').next());
    let field = |input: &str| {
        let is_sent = attribute(input, "type") != Some("checkbox") || input.ends_with(" checked");
        is_sent
            .then(|| Some((attribute(input, "name")?.to_owned(), attribute(input, "value").unwrap_or("").to_owned())))?
    };
    Some(inputs.filter_map(field).collect())
}

fn attribute<'a>(input: &'a str, name: &str) -> Option<&'a str> {
    format!(" {input}").find(&format!(" {name}=\"")).and_then(|at| input.get(at..)?.split('"').nth(1))
}

/// The text of a page, for a complaint.
fn words(html: &str) -> String {
    let text: String = html.split('<').skip(1).filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect();
    let text: Vec<&str> = text.split_whitespace().collect();
    text.join(" ").chars().take(600).collect()
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn a_form_is_sent_as_it_stands() {
        let html = r#"<form action="/other"><input name="no" value="1"></form>
            <form id="make" method="post" action="/grants/apr_1">
            <input type="hidden" name="form_token" value="t"><label>x</label>
            <input id="uses" name="uses" type="text" value="20" required>
            <input type="checkbox" name="further" value="apr_2"> <input type="checkbox" name="exact" value="yes" checked>
            <button type="submit">Allow</button></form><form action="/out"><input name="late" value="2"></form>"#;
        let expected = [("form_token", "t"), ("uses", "20"), ("exact", "yes")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(fields(html, "/grants/apr_1").as_deref(), Some(&expected[..]));
        assert_eq!(fields(html, "/grants/apr_2"), None);
    }
}
