//! What a call is to do, in a few bytes.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use rmcp::model::JsonObject;
use serde_json::Value;

/// Of a tool and its arguments. Keyed at random, so that nobody can make two that are equal.
pub(super) type Fingerprint = [u64; 2];

/// Takes fingerprints; those of one can be compared.
#[derive(Default)]
pub(super) struct Fingerprints {
    /// Two of them, since 64 bits are few.
    hashers: [RandomState; 2],
}

impl Fingerprints {
    pub(super) fn of(&self, tool: &str, arguments: Option<&JsonObject>) -> Fingerprint {
        self.hashers.each_ref().map(|hasher| {
            let mut hash = hasher.build_hasher();
            write_text(&mut hash, tool);
            // No arguments are the same as empty ones.
            write_object(&mut hash, arguments.unwrap_or(&JsonObject::new()));
            hash.finish()
        })
    }
}

/// The same for values that are equal as JSON: the order of an object's keys does not count.
fn write_value(hash: &mut impl Hasher, value: &Value) {
    match value {
        Value::Null => hash.write_u8(0),
        Value::Bool(value) => hash.write(&[1, u8::from(*value)]),
        Value::Number(number) => {
            hash.write_u8(2);
            write_text(hash, &number.to_string());
        }
        Value::String(text) => {
            hash.write_u8(3);
            write_text(hash, text);
        }
        Value::Array(values) => {
            hash.write_u8(4);
            hash.write_usize(values.len());
            for value in values {
                write_value(hash, value);
            }
        }
        Value::Object(object) => write_object(hash, object),
    }
}

fn write_object(hash: &mut impl Hasher, object: &JsonObject) {
    hash.write_u8(5);
    hash.write_usize(object.len());
    let mut fields: Vec<_> = object.iter().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in fields {
        write_text(hash, key);
        write_value(hash, value);
    }
}

fn write_text(hash: &mut impl Hasher, text: &str) {
    hash.write_usize(text.len());
    hash.write(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_that_are_equal_as_json_have_one_fingerprint() {
        let fingerprints = Fingerprints::default();
        let of = |tool: &str, arguments: &Value| fingerprints.of(tool, arguments.as_object());
        let call = json!({"to": {"x": 1, "y": [1, 2, null]}, "fast": true});
        let turned = json!({"fast": true, "to": {"y": [1, 2, null], "x": 1}});
        assert_eq!(of("go", &call), of("go", &turned));
        assert_eq!(of("go", &json!({})), of("go", &Value::Null));

        for other in [
            json!({"to": {"x": 1, "y": [2, 1, null]}, "fast": true}),
            json!({"to": {"x": 1, "y": [1, 2]}, "fast": true}),
            json!({"to": {"x": "1", "y": [1, 2, null]}, "fast": true}),
            json!({"to": {"x": 1.5, "y": [1, 2, null]}, "fast": true}),
            json!({"to": {"x": 1, "y": [1, 2, null]}, "fast": false}),
            json!({"to": {"x": 1, "y": [1, 2, null], "fast": true}}),
            json!({"to": {"x": 1, "y": [1, 2, null]}, "fast": true, "z": null}),
        ] {
            assert_ne!(of("go", &call), of("go", &other), "{other}");
        }
        assert_ne!(of("go", &call), of("went", &call));
        assert_ne!(
            of("go", &json!({"a": "", "b": "x"})),
            of("go", &json!({"a": "x", "b": ""}))
        );
    }
}
