use anyhow::{Context, ensure};
use clap::Args;
use rvc_wire::Map;
use serde_json::Value;

/// The tool's arguments, one by one or all at once.
#[derive(Args)]
#[group(multiple = false)]
pub(super) struct ToolArguments {
    /// One argument; may be repeated. JSON where it parses, else text
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = argument)]
    one_by_one: Vec<(String, Value)>,

    /// All arguments as one JSON object
    #[arg(long = "args-json", value_name = "JSON")]
    whole: Option<String>,
}

impl ToolArguments {
    pub(super) fn read(&self) -> anyhow::Result<Map> {
        if let Some(json) = &self.whole {
            return serde_json::from_str(json).context("--args-json is no JSON object");
        }
        let mut arguments = Map::new();
        for (name, value) in &self.one_by_one {
            let before = arguments.insert(name.clone(), value.clone());
            ensure!(before.is_none(), "--arg gives {name:?} twice");
        }
        Ok(arguments)
    }
}

fn argument(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("there is no = in it")?;
    if name.is_empty() {
        return Err("there is no name before the =".to_owned());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::argument;

    #[test]
    fn a_value_is_json_where_it_parses_and_else_text() {
        for (text, value) in [
            ("k=1.5", json!(1.5)),
            ("k=true", json!(true)),
            ("k=[1,2]", json!([1, 2])),
            (r#"k="1""#, json!("1")),
            ("k=kitchen", json!("kitchen")),
            ("k=a=b", json!("a=b")),
            ("k=", json!("")),
            ("k={broken", json!("{broken")),
        ] {
            assert_eq!(argument(text).unwrap(), ("k".to_owned(), value), "{text}");
        }
        for bad in ["k", "=1", ""] {
            assert!(argument(bad).is_err(), "{bad}");
        }
    }
}
