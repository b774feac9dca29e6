//! What `cargo metadata` says, as far as the stages ask.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;

/// The answer of `cargo metadata --format-version 1`.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    pub(crate) target_directory: PathBuf,
}

/// One package, ours or another's.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rust_version: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
}

/// One dependency as a manifest declares it.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// The package's own name, whatever the manifest renames it to.
    pub(crate) name: String,
    kind: Option<String>,
}

impl Metadata {
    /// Reads the JSON that `cargo metadata` prints.
    pub(crate) fn from_json(json: &str) -> anyhow::Result<Self> {
        Ok(serde_json::from_str(json)?)
    }

    /// The workspace's own packages.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }

    /// The packages that come from elsewhere.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| !self.workspace_members.contains(&package.id))
    }
}

impl Dependency {
    /// Whether only tests, examples and benchmarks see it.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::Metadata;

    /// Metadata with the given member packages and others, in cargo's form.
    pub(crate) fn metadata(members: &[Value], others: &[Value]) -> Metadata {
        let ids: Vec<&Value> = members.iter().map(|package| &package["id"]).collect();
        let packages: Vec<&Value> = members.iter().chain(others).collect();
        let json = json!({
            "packages": packages,
            "workspace_members": ids,
            "target_directory": "target",
        });
        Metadata::from_json(&json.to_string()).expect("the form is cargo's")
    }

    /// A package with dependencies, each a name and a kind (`""` is normal).
    pub(crate) fn package(name: &str, dependencies: &[(&str, &str)]) -> Value {
        let dependencies: Vec<Value> = dependencies
            .iter()
            .map(|(name, kind)| {
                let kind = Some(*kind).filter(|kind| !kind.is_empty());
                json!({ "name": name, "kind": kind })
            })
            .collect();
        json!({
            "id": format!("{name} 0.1.0"),
            "name": name,
            "version": "0.1.0",
            "rust_version": null,
            "dependencies": dependencies,
            "features": {},
        })
    }

    #[test]
    fn members_and_others_are_told_apart_by_id() {
        let metadata = metadata(&[package("rvc-wire", &[])], &[package("serde", &[])]);

        let members: Vec<_> = metadata.members().map(|package| &package.name).collect();
        let others: Vec<_> = metadata.others().map(|package| &package.name).collect();

        assert_eq!(members, ["rvc-wire"]);
        assert_eq!(others, ["serde"]);
    }
}
