//! A row as one parameter: a value of a composite type with its fields in order. A batch is an array of such
//! rows. With an array for every column, the server would have to take the batch apart column by column.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value of a composite type.
#[derive(Debug)]
pub(super) struct CompositeValue<'a, const FIELDS: usize>(pub(super) [CompositeField<'a>; FIELDS]);

/// A field of it.
#[derive(Debug, Clone, Copy)]
pub(super) enum CompositeField<'a> {
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    Number(Option<i64>),
    Truth(bool),
}

impl<const FIELDS: usize> ToSql for CompositeValue<'_, FIELDS> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Composite(fields) = ty.kind() else { return Err("it is not a composite type".into()) };
        out.put_i32(i32::try_from(FIELDS)?);
        for (value, field) in self.0.iter().zip(fields) {
            if value.ty() != *field.type_() {
                return Err(format!("`{}` has an unexpected type", field.name()).into());
            }
            out.put_u32(field.type_().oid());
            value.put(out)?;
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Composite(fields) if fields.len() == FIELDS)
    }

    to_sql_checked!();
}

impl CompositeField<'_> {
    fn ty(&self) -> Type {
        match self {
            Self::Text(_) => Type::TEXT,
            Self::Bytes(_) => Type::BYTEA,
            Self::Number(_) => Type::INT8,
            Self::Truth(_) => Type::BOOL,
        }
    }

    /// Writes the length and the bytes; a null has length -1 and no bytes.
    fn put(&self, out: &mut BytesMut) -> Result<(), Box<dyn Error + Sync + Send>> {
        let bytes = match self {
            Self::Text(text) => text.map(str::as_bytes),
            Self::Bytes(bytes) => *bytes,
            Self::Number(Some(number)) => {
                out.put_i32(8);
                out.put_i64(*number);
                return Ok(());
            }
            Self::Number(None) => None,
            Self::Truth(truth) => {
                out.put_i32(1);
                out.put_u8(u8::from(*truth));
                return Ok(());
            }
        };
        match bytes {
            Some(bytes) => {
                out.put_i32(i32::try_from(bytes.len())?);
                out.put_slice(bytes);
            }
            None => out.put_i32(-1),
        }
        Ok(())
    }
}

impl<'a> From<&'a str> for CompositeField<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for CompositeField<'a> {
    fn from(text: Option<&'a str>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for CompositeField<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl<'a> From<Option<&'a [u8]>> for CompositeField<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<i64> for CompositeField<'_> {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<i64>> for CompositeField<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for CompositeField<'_> {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}
