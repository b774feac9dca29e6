use std::path::PathBuf;

use clap::Args;
use rvc_durable::remote::{DialError, Token, TokenSource};
use rvc_durable::{Registration, RegistrationId};

/// Where the bearer tokens of servers come from.
///
/// They are read whenever a connection is opened and before each start, so a token that was
/// replaced is used from the next start on. They are never stored, and no command line carries one: everybody on the
/// machine can read it (`ps`).
#[derive(Args, Clone, Default)]
pub(crate) struct Tokens {
    /// A file with the bearer token of a registration; may be repeated
    ///
    /// Read whenever a connection is opened and before each start; white space around the token is not part of it. The
    /// name is what stands before the last =. Without this a registration's token is in the
    /// systemd credential `rvc-token-NAME`, or in the variable RVC_TOKEN_NAME, with the name
    /// in upper case and _ for whatever is neither a letter nor a digit; and where that is not
    /// there either, it has none.
    #[arg(long = "token-file", value_name = "NAME=FILE", value_parser = named_file)]
    files: Vec<(RegistrationId, PathBuf)>,
}

impl Tokens {
    fn read(&self, registration: &RegistrationId) -> Result<Option<Token>, String> {
        let given = self.files.iter().find(|(name, _)| name == registration);
        if let Some((_, file)) = given {
            return from_file(file).map(Some);
        }
        let directory = std::env::var_os("CREDENTIALS_DIRECTORY");
        if let Some(directory) = directory.filter(|directory| !directory.is_empty())
            && let Some(name) = credential(registration.as_str())
        {
            let file = PathBuf::from(directory).join(name);
            if file.exists() {
                return from_file(&file).map(Some);
            }
        }
        let name = variable(registration.as_str());
        match std::env::var(&name) {
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => token(&text)
                .ok_or_else(|| format!("{name} holds no token"))
                .map(Some),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(format!("{name} holds no token")),
        }
    }
}

impl TokenSource for Tokens {
    fn token<'a>(
        &'a self,
        registration: &'a Registration,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Option<Token>, DialError>> + Send + 'a>> {
        Box::pin(async move {
            let (tokens, id) = (self.clone(), registration.id.clone());
            // A file may be on a disk that takes its time.
            let read = tokio::task::spawn_blocking(move || tokens.read(&id)).await;
            let found = read.unwrap_or_else(|_| Err("it cannot be read".to_owned()));
            found.map_err(|reason| DialError {
                reason: format!("no token: {reason}"),
                retry_after: None,
            })
        })
    }
}

fn named_file(text: &str) -> Result<(RegistrationId, PathBuf), String> {
    // A registration may be named as its URL, which may have a = in it.
    let (name, file) = text.rsplit_once('=').ok_or("there is no = in it")?;
    let name = name.parse().map_err(|error| format!("{error}"))?;
    Ok((name, file.into()))
}

fn from_file(file: &PathBuf) -> Result<Token, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
    token(&text).ok_or_else(|| format!("{shown} holds no token"))
}

/// A token as a header can carry it.
fn token(text: &str) -> Option<Token> {
    let text = text.trim();
    let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| Token::new(text))
}

/// The name of a systemd credential; `None` for a name that could lead out of its directory.
fn credential(registration: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = registration.bytes().all(is_plain);
    fits.then(|| format!("rvc-token-{registration}"))
}

fn variable(registration: &str) -> String {
    let folded = registration.chars().map(|character| {
        if character.is_ascii_alphanumeric() {
            character.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    format!("RVC_TOKEN_{}", folded.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_has_a_variable_and_where_it_is_safe_a_credential() {
        for (name, in_environment, in_directory) in [
            ("robot", "RVC_TOKEN_ROBOT", Some("rvc-token-robot")),
            (
                "arm-2.left",
                "RVC_TOKEN_ARM_2_LEFT",
                Some("rvc-token-arm-2.left"),
            ),
            ("../robot", "RVC_TOKEN____ROBOT", None),
            ("http://a/mcp", "RVC_TOKEN_HTTP___A_MCP", None),
        ] {
            assert_eq!(variable(name), in_environment);
            assert_eq!(credential(name).as_deref(), in_directory);
        }
    }

    #[test]
    fn a_token_is_what_a_header_can_carry() {
        for good in ["abc.DEF-1_2~+/=", " abc\n"] {
            assert!(token(good).is_some(), "{good:?}");
        }
        for bad in ["", " \n", "a b", "a\nb: c", "ä"] {
            assert!(token(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_belongs_to_the_name_before_the_last_equals_sign() {
        let (name, file) = named_file("http://a/mcp?x=1=/run/token").unwrap();
        assert_eq!(name.as_str(), "http://a/mcp?x=1");
        assert_eq!(file, PathBuf::from("/run/token"));
        assert!(named_file("robot").is_err());
        assert!(named_file("=file").is_err());
    }

    #[test]
    fn a_token_shows_nowhere() {
        let token = token("hunter2").unwrap();
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
