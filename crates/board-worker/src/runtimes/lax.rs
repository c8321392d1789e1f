//! Reading events that are not quite as they should be.
//!
//! An agent of another version leaves a field out, gives a number as a text or an object where a sentence
//! was. Serde refuses the whole line then, and with it the one field that decides. [`Lax`] takes what fits
//! and drops what does not, in the one pass over the line that is needed anyway. [`mend`] makes a whole
//! object of a line that was cut, so that what stood at its beginning still counts.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A field that may hold anything; none if it is missing or of another kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lax<T>(pub(crate) Option<T>);

impl<T> Default for Lax<T> {
    fn default() -> Lax<T> {
        Lax(None)
    }
}

impl<T> Lax<T> {
    /// The value, if it fitted.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

impl Lax<String> {
    /// The text, or an empty one.
    pub(crate) fn text(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }
}

/// A value that can be made of some kinds of JSON. Each kind that is not taken is none.
pub(crate) trait FromJson<'de>: Sized {
    fn from_text(_: &str) -> Option<Self> {
        None
    }

    fn from_whole(_: u64) -> Option<Self> {
        None
    }

    fn from_fraction(_: f64) -> Option<Self> {
        None
    }

    fn from_truth(_: bool) -> Option<Self> {
        None
    }

    fn from_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl FromJson<'_> for String {
    fn from_text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

impl FromJson<'_> for u64 {
    fn from_text(text: &str) -> Option<u64> {
        text.trim().parse().ok()
    }

    fn from_whole(number: u64) -> Option<u64> {
        Some(number)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be whole and small"
    )]
    fn from_fraction(number: f64) -> Option<u64> {
        (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number as u64)
    }
}

impl FromJson<'_> for u16 {
    fn from_text(text: &str) -> Option<u16> {
        text.trim().parse().ok()
    }

    fn from_whole(number: u64) -> Option<u16> {
        u16::try_from(number).ok()
    }
}

impl FromJson<'_> for f64 {
    #[allow(clippy::cast_precision_loss, reason = "an amount of money")]
    fn from_whole(number: u64) -> Option<f64> {
        Some(number as f64)
    }

    fn from_fraction(number: f64) -> Option<f64> {
        Some(number)
    }
}

impl FromJson<'_> for bool {
    fn from_truth(truth: bool) -> Option<bool> {
        Some(truth)
    }
}

/// Anything at all, for what is looked into by hand.
impl<'de> FromJson<'de> for Value {
    fn from_text(text: &str) -> Option<Value> {
        Some(Value::from(text))
    }

    fn from_whole(number: u64) -> Option<Value> {
        Some(Value::from(number))
    }

    fn from_fraction(number: f64) -> Option<Value> {
        Some(Value::from(number))
    }

    fn from_truth(truth: bool) -> Option<Value> {
        Some(Value::from(truth))
    }

    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Option<Value>, A::Error> {
        Value::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Value>, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Some(Value::Array(values)))
    }
}

/// What fits of a list.
impl<'de, T: FromJson<'de>> FromJson<'de> for Vec<T> {
    fn from_list<A: SeqAccess<'de>>(mut list: A) -> Result<Option<Vec<T>>, A::Error> {
        let mut values = Vec::new();
        while let Some(Lax(value)) = list.next_element::<Lax<T>>()? {
            values.extend(value);
        }
        Ok(Some(values))
    }
}

/// Lets a struct that derives `Deserialize`, with only lax fields, be a lax field itself.
macro_rules! lax_object {
    ($($name:ty),+ $(,)?) => {$(
        impl<'de> crate::runtimes::lax::FromJson<'de> for $name {
            fn from_map<A: serde::de::MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
                serde::Deserialize::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Some)
            }
        }
    )+};
}
pub(crate) use lax_object;

impl<'de, T: FromJson<'de>> Deserialize<'de> for Lax<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lax<T>, D::Error> {
        deserializer.deserialize_any(Taker(PhantomData)).map(Lax)
    }
}

struct Taker<T>(PhantomData<T>);

impl<'de, T: FromJson<'de>> Visitor<'de> for Taker<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<T>, E> {
        Ok(T::from_text(text))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<T>, E> {
        Ok(T::from_whole(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<T>, E> {
        // Negative, and nothing that is read here can be.
        Ok(None)
    }

    fn visit_f64<E>(self, number: f64) -> Result<Option<T>, E> {
        Ok(T::from_fraction(number))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Option<T>, E> {
        Ok(T::from_truth(truth))
    }

    fn visit_unit<E>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
        T::from_map(map)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Option<T>, A::Error> {
        T::from_list(list)
    }
}

/// A line as an object. Serde would take a list for the fields of a struct in their order. Bytes that are no UTF-8, as
/// a command may print them, are replaced: the event around them happened.
pub(crate) fn object<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    if !begins_object(line) {
        return None;
    }
    match serde_json::from_slice(line) {
        Ok(value) => Some(value),
        Err(_) => match String::from_utf8_lossy(line) {
            Cow::Owned(text) => serde_json::from_str(&text).ok(),
            // Valid text, so its JSON was at fault.
            Cow::Borrowed(_) => None,
        },
    }
}

fn begins_object(line: &[u8]) -> bool {
    line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// A whole object from the beginning of one: an open text is closed, an unfinished member dropped, every
/// open bracket closed. None if it does not begin as an object.
pub(crate) fn mend(start: &[u8]) -> Option<Vec<u8>> {
    if !begins_object(start) {
        return None;
    }
    let mut scan = Scan::default();
    for (at, byte) in start.iter().enumerate() {
        scan.step(at, *byte);
    }
    let mut whole = match scan.text {
        Some(Text { is_key: false, .. }) => {
            let mut whole = start[..scan.whole_to].to_vec();
            // Half a character at the cut.
            if let Err(error) = std::str::from_utf8(&whole)
                && error.error_len().is_none()
            {
                whole.truncate(error.valid_up_to());
            }
            whole.push(b'"');
            whole
        }
        Some(Text { is_key: true, .. }) | None => start[..scan.safe_to].to_vec(),
    };
    whole.extend(scan.open.iter().rev().map(|frame| if frame.is_object { b'}' } else { b']' }));
    Some(whole)
}

/// Where a scan of half an object is.
#[derive(Default)]
struct Scan {
    open: Vec<Frame>,
    text: Option<Text>,
    /// Everything before this is whole members and open brackets.
    safe_to: usize,
    /// Inside a text: everything before this is whole characters and escapes.
    whole_to: usize,
}

struct Frame {
    is_object: bool,
    expects_key: bool,
}

struct Text {
    is_key: bool,
    /// Bytes of an escape that are still to come.
    escape: u8,
    /// The escape's first digit.
    begins_with_d: bool,
    /// A low surrogate has to follow.
    half: bool,
}

impl Scan {
    fn step(&mut self, at: usize, byte: u8) {
        if self.text.is_some() {
            return self.in_text(at, byte);
        }
        match byte {
            b'"' => {
                let is_key = self.open.last().is_some_and(|frame| frame.expects_key);
                self.text = Some(Text { is_key, escape: 0, begins_with_d: false, half: false });
                self.whole_to = at + 1;
            }
            b'{' | b'[' => {
                let is_object = byte == b'{';
                self.open.push(Frame { is_object, expects_key: is_object });
                self.safe_to = at + 1;
            }
            b'}' | b']' => {
                self.open.pop();
                self.safe_to = at + 1;
            }
            b':' => {
                if let Some(frame) = self.open.last_mut() {
                    frame.expects_key = false;
                }
            }
            b',' => {
                self.safe_to = at;
                if let Some(frame) = self.open.last_mut() {
                    frame.expects_key = frame.is_object;
                }
            }
            _ => {}
        }
    }

    fn in_text(&mut self, at: usize, byte: u8) {
        let Some(text) = &mut self.text else { return };
        if text.escape > 0 {
            text.escape -= 1;
            // `\u` is followed by four digits, every other escape by nothing. A first half of a pair is
            // no character without its second, both begin with `\ud`.
            match (text.escape, byte) {
                (0, b'u') => text.escape = 4,
                (3, digit) => text.begins_with_d = matches!(digit, b'd' | b'D'),
                (2, digit) => {
                    let first = matches!(digit, b'8' | b'9' | b'a' | b'b' | b'A' | b'B');
                    text.half = text.begins_with_d && first;
                }
                _ => {}
            }
            if text.escape == 0 && !text.half {
                self.whole_to = at + 1;
            }
            return;
        }
        match byte {
            b'\\' => text.escape = 1,
            b'"' => {
                let was_key = text.is_key;
                self.text = None;
                if !was_key {
                    self.safe_to = at + 1;
                }
            }
            _ if !text.half => self.whole_to = at + 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Line {
        #[serde(default)]
        name: Lax<String>,
        #[serde(default)]
        count: Lax<u64>,
        #[serde(default)]
        inner: Lax<Inner>,
        #[serde(default)]
        list: Lax<Vec<Inner>>,
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Inner {
        #[serde(default)]
        text: Lax<String>,
    }

    lax_object!(Inner);

    fn line(json: &str) -> Line {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_fits_is_taken_and_what_does_not_is_none() {
        let whole =
            line(r#"{"name":"n","count":7,"inner":{"text":"t","more":[{}]},"list":[{"text":"a"},3]}"#);
        assert_eq!((whole.name.text(), whole.count.0), ("n", Some(7)));
        assert_eq!(whole.inner.get().map(|inner| inner.text.text()), Some("t"));
        assert_eq!(whole.list.0.map(|list| list.len()), Some(1));
        let odd = line(r#"{"name":{"a":[1]},"count":"12","inner":"x","list":{"y":0}}"#);
        assert_eq!(odd, Line { count: Lax(Some(12)), ..Line::default() });
        assert_eq!(line(r#"{"name":null,"count":-3,"inner":[true,1.5]}"#), Line::default());
    }

    fn mended(start: &str) -> Value {
        let whole = mend(start.as_bytes()).unwrap();
        serde_json::from_slice(&whole).unwrap_or_else(|error| panic!("{error}: {start}"))
    }

    #[test]
    fn a_cut_object_is_closed_and_its_unfinished_member_dropped() {
        use serde_json::json;
        assert_eq!(mended(r#"{"a":"b","c":{"d":"lon"#), json!({"a":"b","c":{"d":"lon"}}));
        assert_eq!(mended(r#"{"a":1,"b":2"#), json!({"a":1}));
        assert_eq!(mended(r#"{"a":1,"b"#), json!({"a":1}));
        assert_eq!(mended(r#"{"a":[1,{"x":tr"#), json!({"a":[1,{}]}));
        assert_eq!(mended(r#"{"a":"x\"#), json!({"a":"x"}));
        assert_eq!(mended(r#"{"a":"x\u00"#), json!({"a":"x"}));
        assert_eq!(mended(r#"{"a":"x\ud83d"#), json!({"a":"x"}));
        assert_eq!(mended(r#"{"a":"x\ud83d\ude00"#), json!({"a":"x😀"}));
        assert_eq!(mended("{"), json!({}));
        assert_eq!(mend(b"plain"), None);
        let half = mend("{\"a\":\"ö".as_bytes().split_last().unwrap().1).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&half).unwrap(), json!({"a":""}));
    }

    proptest! {
        #[test]
        fn every_beginning_of_an_object_can_be_mended(
            text in "[a\\\\\"ö😀\u{1}]{0,8}", escaped in proptest::bool::ANY, n in 0_i64.., cut in 0_usize..400,
        ) {
            let value = serde_json::json!({"type": "x", "s": text, "o": {"l": [n, text, null, true]}, "e": {}});
            let mut json = value.to_string();
            if escaped {
                json = json.replace('ö', "\\u00f6").replace('😀', "\\ud83d\\ude00");
            }
            let start = &json.as_bytes()[..cut.min(json.len()).max(1)];
            let whole = mend(start).unwrap();
            prop_assert!(serde_json::from_slice::<Value>(&whole).is_ok(), "{:?}", String::from_utf8_lossy(&whole));
        }
    }
}
