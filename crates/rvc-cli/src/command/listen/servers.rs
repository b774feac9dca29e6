use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use rvc_inbox::Inbox;
use rvc_sign::Secret;
use rvc_wire::ServerName;

use crate::secret_source;

/// An inbox that knows the servers of the command line and of a file.
pub(crate) fn inbox(arguments: &[String], env_file: Option<&Path>) -> anyhow::Result<Inbox> {
    let mut secrets = arguments
        .iter()
        .map(|argument| parse(argument).context("--secret"))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(file) = env_file {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()))?;
        let from_file = parse_file(&text).with_context(|| file.display().to_string())?;
        ensure!(!from_file.is_empty(), "{} names no server", file.display());
        secrets.extend(from_file);
    }
    let mut builder = Inbox::builder();
    for ServerSecret { server, secret } in secrets {
        builder = builder.server(server, [secret]);
    }
    Ok(builder.build()?)
}

struct ServerSecret {
    server: ServerName,
    secret: Secret,
}

/// Reads one `SERVER=SECRET`. No error repeats it.
fn parse(text: &str) -> anyhow::Result<ServerSecret> {
    let (server, secret) = text
        .split_once('=')
        .ok_or_else(|| anyhow!("there is no = between server and secret"))?;
    let server: ServerName = server.parse().context("before the =")?;
    let secret = secret_source::configured(server.as_str(), secret.as_bytes())?;
    Ok(ServerSecret { server, secret })
}

fn parse_file(text: &str) -> anyhow::Result<Vec<ServerSecret>> {
    text.lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|(line, number)| parse(line).with_context(|| format!("line {number}")))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn servers(text: &str) -> Vec<String> {
        let parsed = parse_file(text).unwrap();
        parsed.iter().map(|one| one.server.to_string()).collect()
    }

    #[test]
    fn a_file_names_a_server_and_its_secret_a_line() {
        let text = "# secrets\n\nnavigation=a=b\r\n  \nperception=x\nnavigation=new\n";
        assert_eq!(servers(text), ["navigation", "perception", "navigation"]);
        let navigation = &parse_file(text).unwrap()[0];
        assert_eq!(
            navigation.secret.key_id(),
            Secret::new(b"a=b").unwrap().key_id()
        );
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_never_repeated() {
        for (text, reason) in [
            (
                "a=b\nhunter2\n",
                "line 2: there is no = between server and secret",
            ),
            ("=hunter2", "line 1: before the =: name is empty"),
            ("nav=", "line 1: nav is refused: the secret is empty"),
            (" nav=hunter2", "starts with ' '"),
            ("nav = hunter2", "contains ' '"),
            ("nav=hunter2 ", "begins or ends with white space"),
        ] {
            let error = parse_file(text).err().unwrap();
            let shown = format!("{error:#}");
            assert!(shown.contains(reason), "{shown}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
