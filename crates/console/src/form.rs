//! Forms as browsers send them, within limits.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, header};

use crate::fault::PageFault;

/// The most fields of a form.
const FIELDS_MAX: usize = 128;
const FORM: &str = "application/x-www-form-urlencoded";

/// The fields of a form, in order.
pub(crate) struct Form<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Form<'a> {
    /// Reads the body of a POST.
    pub(crate) fn read(headers: &HeaderMap, body: &'a Bytes) -> Result<Self, PageFault> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case(FORM) {
            return Err(PageFault::BadForm("the form was not sent as a form"));
        }
        let fields: Vec<_> = form_urlencoded::parse(body).take(FIELDS_MAX + 1).collect();
        if fields.len() > FIELDS_MAX {
            return Err(PageFault::BadForm("the form has too many fields"));
        }
        Ok(Self(fields))
    }

    /// The value of a field. None if the form does not have it, or has it more than once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields(name);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    }

    /// The values of a field that may come more than once.
    pub(crate) fn fields(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| &**value)
    }
}

/// The value of a parameter in an address. None if it is not there, or there more than once.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut values = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).filter(|(own, _)| own == name);
    let first = values.next()?.1.into_owned();
    values.next().is_none().then_some(first)
}
