use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rvc_sign::{Secret, SecretError, SecretWarning};

use crate::{Endpoint, EndpointError};

/// The environment variable with the endpoint's URL (contract section 3.4).
const URL: &str = "RVC_CALLBACK_URL";
/// The environment variable with the secret (contract section 3.4).
const SECRET: &str = "RVC_EVENT_SECRET";
/// The environment variable with the name of a file that has the secret (contract decision 11).
const SECRET_FILE: &str = "RVC_EVENT_SECRET_FILE";

/// What the environment says about delivery: where events go, or that they go nowhere.
#[derive(Clone, Debug)]
pub struct PosterConfig {
    endpoint: Option<Endpoint>,
    warning: Option<SecretWarning>,
}

impl PosterConfig {
    /// Reads `RVC_CALLBACK_URL`, `RVC_EVENT_SECRET` and `RVC_EVENT_SECRET_FILE`.
    ///
    /// # Errors
    ///
    /// As [`from_vars`](Self::from_vars).
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_vars(|name| std::env::var_os(name))
    }

    /// Reads the same variables from anywhere, and the secret's file if one is named.
    ///
    /// Without a URL, an empty one included, there is no endpoint and the secret does not matter.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the URL is no endpoint, or the secret is missing, named twice, cannot
    /// be read, or has white space at either end (contract decision 11).
    pub fn from_vars(var: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let var = |name| var(name).filter(|value| !value.is_empty());
        let Some(url) = var(URL) else {
            return Ok(Self {
                endpoint: None,
                warning: None,
            });
        };
        let url = url
            .into_string()
            .map_err(|_| EndpointError::NotAUrl("it is not UTF-8".to_owned()))?;
        let (secret, warning) = match (var(SECRET), var(SECRET_FILE)) {
            (Some(_), Some(_)) => return Err(ConfigError::TwoSecrets),
            (None, None) => return Err(ConfigError::NoSecret),
            // On Unix these are exactly the variable's bytes.
            (Some(value), None) => Secret::from_config(value.as_encoded_bytes()).map_err(|error| {
                ConfigError::BadSecret {
                    name: SECRET,
                    error,
                }
            }),
            (None, Some(path)) => read_secret(Path::new(&path)),
        }?;
        Ok(Self {
            endpoint: Some(Endpoint::new(&url, secret)?),
            warning,
        })
    }

    /// Where events go; `None` means that they are logged and nothing else.
    #[must_use]
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// What is odd about the secret, though it is accepted.
    #[must_use]
    pub fn warning(&self) -> Option<SecretWarning> {
        self.warning
    }
}

/// Why the environment makes no poster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// `RVC_CALLBACK_URL` is set, but not to an endpoint.
    #[error("RVC_CALLBACK_URL is refused")]
    Endpoint(#[from] EndpointError),

    /// There is a URL and nothing to sign with.
    #[error("RVC_CALLBACK_URL is set, but neither RVC_EVENT_SECRET nor RVC_EVENT_SECRET_FILE is")]
    NoSecret,

    /// The secret is given in two ways.
    #[error("RVC_EVENT_SECRET and RVC_EVENT_SECRET_FILE are both set, only one may be")]
    TwoSecrets,

    /// The secret's file cannot be read.
    #[error("RVC_EVENT_SECRET_FILE names {path:?}, which cannot be read")]
    SecretFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: io::Error,
    },

    /// The secret cannot be used as it is.
    #[error("the secret that {name} gives is refused")]
    BadSecret {
        /// The variable that gives it.
        name: &'static str,
        /// Why.
        #[source]
        error: SecretError,
    },

    /// The poster itself could not be built.
    #[error("the poster cannot be built")]
    Build(#[from] crate::BuildError),
}

fn read_secret(path: &Path) -> Result<(Secret, Option<SecretWarning>), ConfigError> {
    let contents = std::fs::read(path).map_err(|error| ConfigError::SecretFile {
        path: path.to_owned(),
        error,
    })?;
    Secret::from_file_contents(&contents).map_err(|error| ConfigError::BadSecret {
        name: SECRET_FILE,
        error,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::error::Error;

    use super::*;

    fn config(vars: &[(&str, &str)]) -> Result<PosterConfig, ConfigError> {
        PosterConfig::from_vars(|name| {
            let (_, value) = vars.iter().find(|(key, _)| *key == name)?;
            Some(value.into())
        })
    }

    fn reasons(error: &ConfigError) -> String {
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        format!("{error}: {cause}")
    }

    /// A file of the test's own that goes when it ends.
    struct SecretFile(PathBuf);

    impl SecretFile {
        fn with(name: &str, contents: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("rvc-{}-{name}", std::process::id()));
            std::fs::write(&path, contents).unwrap();
            Self(path)
        }

        fn vars(&self) -> [(&str, &str); 2] {
            [(URL, "http://h/"), (SECRET_FILE, self.0.to_str().unwrap())]
        }
    }

    impl Drop for SecretFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn without_a_url_or_with_an_empty_one_there_is_no_endpoint() {
        for vars in [
            &[][..],
            &[(URL, "")],
            &[(SECRET, "s ")],
            &[(URL, ""), (SECRET, "s"), (SECRET_FILE, "/nowhere")],
        ] {
            assert!(config(vars).unwrap().endpoint().is_none(), "{vars:?}");
        }
    }

    #[test]
    fn a_url_needs_exactly_one_secret() {
        assert!(matches!(
            config(&[(URL, "http://h/")]),
            Err(ConfigError::NoSecret)
        ));
        assert!(matches!(
            config(&[(URL, "http://h/"), (SECRET, ""), (SECRET_FILE, "")]),
            Err(ConfigError::NoSecret)
        ));
        assert!(matches!(
            config(&[(URL, "http://h/"), (SECRET, "s"), (SECRET_FILE, "/f")]),
            Err(ConfigError::TwoSecrets)
        ));
        let config = config(&[(URL, "http://h/e"), (SECRET, "s")]).unwrap();
        assert_eq!(config.endpoint().unwrap().to_string(), "http://h/e");
        assert_eq!(config.warning(), None);
    }

    #[test]
    fn a_secret_with_a_trailing_newline_is_refused_and_says_so() {
        let error = config(&[(URL, "http://h/"), (SECRET, "hunter2\n")]).unwrap_err();
        let reasons = reasons(&error);
        assert!(reasons.contains("RVC_EVENT_SECRET gives"), "{reasons}");
        assert!(reasons.contains("white space"), "{reasons}");
        assert!(!format!("{reasons}{error:?}").contains("hunter"));
    }

    #[test]
    fn a_secret_files_final_line_ending_is_not_part_of_the_secret() {
        let id = |config: PosterConfig| config.endpoint().unwrap().secret().key_id();
        let file = SecretFile::with("one-line", b"s3cret\n");
        let from_file = config(&file.vars()).unwrap();
        let plain = config(&[(URL, "http://h/"), (SECRET, "s3cret")]).unwrap();
        assert_eq!(id(from_file), id(plain));

        let file = SecretFile::with("two-lines", b"s3cret\n\n");
        let error = config(&file.vars()).unwrap_err();
        assert!(matches!(
            error,
            ConfigError::BadSecret {
                name: SECRET_FILE,
                error: SecretError::OuterWhitespace
            }
        ));
    }

    #[test]
    fn a_secret_file_that_is_missing_or_empty_is_named() {
        let error = config(&[(URL, "http://h/"), (SECRET_FILE, "/no/such/file")]).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");

        let file = SecretFile::with("empty", b"\n");
        let error = config(&file.vars()).unwrap_err();
        assert!(reasons(&error).contains("empty"), "{error:?}");
    }

    #[test]
    fn quotes_around_the_secret_warn() {
        let config = config(&[(URL, "http://h/"), (SECRET, "\"s3cret\"")]).unwrap();
        assert_eq!(config.warning(), Some(SecretWarning::Quoted));
    }

    #[test]
    fn a_url_with_a_password_is_refused_and_not_repeated() {
        let error = config(&[(URL, "http://me:hunter2@h/"), (SECRET, "s")]).unwrap_err();
        assert!(matches!(
            error,
            ConfigError::Endpoint(EndpointError::Credentials)
        ));
        assert!(!format!("{}{error:?}", reasons(&error)).contains("hunter"));
    }
}
