//! The stated minimum Rust version against the dependencies' own.

use std::fmt;

use anyhow::Context;

use crate::metadata::Metadata;

/// A Rust version as manifests write it: `1.89` or `1.89.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RustVersion(u32, u32, u32);

/// A dependency that asks for more than a member states.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    member: String,
    stated: RustVersion,
    dependency: String,
    needed: RustVersion,
}

/// Every member whose stated version is below what some dependency needs.
///
/// All dependencies count, those of tests and of other platforms too: who
/// builds with the stated version should be able to run the tests with it.
///
/// # Errors
/// When a member states no version, or one cannot be read.
pub(crate) fn violations(metadata: &Metadata) -> anyhow::Result<Vec<Violation>> {
    let Some((dependency, needed)) = highest_need(metadata)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for member in metadata.members() {
        let stated = member
            .rust_version
            .as_deref()
            .with_context(|| format!("{} states no rust-version", member.name))?;
        let stated = RustVersion::parse(stated)?;
        if stated < needed {
            found.push(Violation {
                member: member.name.clone(),
                stated,
                dependency: dependency.clone(),
                needed,
            });
        }
    }
    Ok(found)
}

fn highest_need(metadata: &Metadata) -> anyhow::Result<Option<(String, RustVersion)>> {
    let mut highest: Option<(String, RustVersion)> = None;
    for package in metadata.others() {
        let Some(version) = &package.rust_version else {
            continue;
        };
        let version = RustVersion::parse(version)
            .with_context(|| format!("in {} {}", package.name, package.version))?;
        if highest.as_ref().is_none_or(|(_, most)| version > *most) {
            highest = Some((format!("{} {}", package.name, package.version), version));
        }
    }
    Ok(highest)
}

impl RustVersion {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let numbers: Vec<u32> = text
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("`{text}` is no Rust version"))?;
        match numbers[..] {
            [major, minor] => Ok(Self(major, minor, 0)),
            [major, minor, patch] => Ok(Self(major, minor, patch)),
            _ => anyhow::bail!("`{text}` is no Rust version"),
        }
    }
}

impl fmt::Display for RustVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            member,
            stated,
            dependency,
            needed,
        } = self;
        write!(
            f,
            "{member} states Rust {stated}, but {dependency} needs {needed}"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::{RustVersion, violations};
    use crate::metadata::tests::{metadata, package};

    fn with_version(name: &str, version: &str) -> Value {
        let mut package = package(name, &[]);
        package["rust_version"] = json!(version);
        package
    }

    #[test]
    fn a_dependency_that_needs_more_is_named() {
        let metadata = metadata(
            &[with_version("rvc-wire", "1.85")],
            &[
                with_version("serde", "1.60"),
                with_version("uuid", "1.89.0"),
            ],
        );

        let found = violations(&metadata).unwrap();

        assert_eq!(
            found[0].to_string(),
            "rvc-wire states Rust 1.85.0, but uuid 0.1.0 needs 1.89.0"
        );
    }

    #[test]
    fn equal_versions_agree_whether_or_not_the_patch_is_written() {
        let metadata = metadata(
            &[with_version("rvc-wire", "1.89")],
            &[with_version("uuid", "1.89.0")],
        );

        assert_eq!(violations(&metadata).unwrap(), []);
    }

    #[test]
    fn versions_are_compared_by_number_and_not_by_letter() {
        assert!(RustVersion::parse("1.100").unwrap() > RustVersion::parse("1.89").unwrap());
    }

    #[test]
    fn a_member_without_a_version_is_an_error() {
        let metadata = metadata(&[package("rvc-wire", &[])], &[with_version("uuid", "1.89")]);

        let error = violations(&metadata).unwrap_err();

        assert_eq!(error.to_string(), "rvc-wire states no rust-version");
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for text in ["", "1", "1.x", "1.2.3.4", "stable"] {
            assert!(RustVersion::parse(text).is_err(), "{text}");
        }
    }
}
