//! The feature combinations of each published crate.
//!
//! The default-off build belongs to the clippy stage; here come the others,
//! each under clippy too, so that warnings are denied in every combination.

use anyhow::ensure;

use crate::edges::published;
use crate::metadata::{Metadata, Package};
use crate::outcome::Outcome;
use crate::workspace::Workspace;

/// More features than this make too many builds to try them all.
const MOST_FEATURES: usize = 4;

/// Checks every combination but the empty one.
pub(crate) fn stage(workspace: &Workspace) -> anyhow::Result<Outcome> {
    let metadata = workspace.metadata()?;
    for member in published_members(&metadata) {
        for combination in combinations(member)? {
            let name = &member.name;
            let features = combination.join(",");
            workspace
                .cargo([
                    "clippy",
                    "--package",
                    name,
                    "--no-default-features",
                    "--features",
                    &features,
                    "--",
                    "-D",
                    "warnings",
                ])
                .run()?;
        }
    }
    Ok(Outcome::passed())
}

/// The published crates among the members.
pub(crate) fn published_members(metadata: &Metadata) -> impl Iterator<Item = &Package> {
    metadata
        .members()
        .filter(|member| published().any(|name| name == member.name))
}

/// Every non-empty set of a crate's features, without `default`.
fn combinations(package: &Package) -> anyhow::Result<Vec<Vec<&str>>> {
    let names: Vec<&str> = package
        .features
        .keys()
        .map(String::as_str)
        .filter(|name| *name != "default")
        .collect();
    ensure!(
        names.len() <= MOST_FEATURES,
        "{} has {} features, too many to try every combination: choose those that matter in xtask/src/features.rs",
        package.name,
        names.len(),
    );
    let sets = (1_usize..1 << names.len()).map(|set| {
        let chosen = names.iter().enumerate();
        chosen
            .filter(|(place, _)| set & (1 << place) != 0)
            .map(|(_, name)| *name)
            .collect()
    });
    Ok(sets.collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::combinations;
    use crate::metadata::Metadata;
    use crate::metadata::tests::{metadata, package};

    fn with_features(names: &[&str]) -> Metadata {
        let mut package = package("rvc-wire", &[]);
        for name in names {
            package["features"][name] = json!([]);
        }
        metadata(&[package], &[])
    }

    #[test]
    fn every_set_but_the_empty_one_is_tried_and_default_is_no_feature() {
        let metadata = with_features(&["default", "schema", "std"]);

        assert_eq!(
            combinations(&metadata.packages[0]).unwrap(),
            [vec!["schema"], vec!["std"], vec!["schema", "std"]]
        );
    }

    #[test]
    fn a_crate_without_features_has_nothing_to_try() {
        let metadata = with_features(&[]);

        assert!(combinations(&metadata.packages[0]).unwrap().is_empty());
    }

    #[test]
    fn too_many_features_are_an_error_and_not_an_hour_of_builds() {
        let metadata = with_features(&["a", "b", "c", "d", "e"]);

        assert!(combinations(&metadata.packages[0]).is_err());
    }
}
