//! JSON that comes from outside, where an object is meant.
//!
//! serde reads a struct from an array too, field by field in their order, which no format here says: what a client
//! or a file means by an array is not ours to guess.
use serde::de::{DeserializeOwned, Error as _};

/// Reads an object.
///
/// # Errors
/// No JSON, no object, or not of this shape.
pub fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err(serde_json::Error::custom("an array, where an object {…} is expected")),
        Some(_) | None => serde_json::from_slice(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_no_object_even_if_its_values_would_fit() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Move {
            to: String,
        }
        assert_eq!(object::<Move>(br#" {"to":"a"}"#).unwrap(), Move { to: "a".into() });
        assert!(serde_json::from_slice::<Move>(br#"["a"]"#).is_ok(), "what is guarded against");
        assert!(object::<Move>(b"\n [\"a\"]").unwrap_err().to_string().contains("object"));
        assert!(object::<Move>(b"").is_err());
    }
}
