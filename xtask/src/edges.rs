//! Which crate may depend on which, checked against `cargo metadata`.
//!
//! 1. Each of our crates has a row; a crate without one is a violation, so a
//!    new crate gets its rule before it gets its code.
//! 2. A row binds normal and build dependencies. Tests may look sideways, but a
//!    crate whose row is [`Ours::NoneAtAll`] may not even do that.
//! 3. A guarded package may be named by its owners alone, in tests too.

use std::fmt;

use crate::metadata::{Metadata, Package};

/// Which of our crates one crate may depend on.
enum Ours {
    /// None, not even for tests.
    NoneAtAll,
    /// Only these; tests may use others.
    Only(&'static [&'static str]),
    /// Programs on top of everything.
    Any,
}

/// Whether a crate is meant for others, or only serves this workspace.
#[derive(PartialEq)]
enum Audience {
    Published,
    Internal,
}

const ROWS: &[(&str, Audience, Ours)] = &[
    ("rvc-wire", Audience::Published, Ours::Only(&[])),
    ("rvc-sign", Audience::Published, Ours::Only(&[])),
    (
        "rvc-poster",
        Audience::Published,
        Ours::Only(&["rvc-wire", "rvc-sign"]),
    ),
    (
        "rvc-tasks",
        Audience::Published,
        Ours::Only(&["rvc-wire", "rvc-poster"]),
    ),
    ("rvc-mcp", Audience::Published, Ours::Only(&["rvc-tasks"])),
    (
        "rvc-inbox",
        Audience::Published,
        Ours::Only(&["rvc-wire", "rvc-sign"]),
    ),
    (
        // Of rvc-mcp the client transport alone: HTTP+SSE has one home, beside the
        // server's.
        "rvc-durable",
        Audience::Published,
        Ours::Only(&["rvc-mcp", "rvc-wire"]),
    ),
    ("rvc-cli", Audience::Published, Ours::Any),
    ("rvc-bench", Audience::Internal, Ours::Any),
    ("rvc-examples", Audience::Internal, Ours::Any),
    ("rvc-test", Audience::Internal, Ours::NoneAtAll),
    ("xtask", Audience::Internal, Ours::NoneAtAll),
];

/// Packages that only their owners may name.
const GUARDED: &[(&str, &[&str])] = &[
    (
        "rmcp",
        &["rvc-mcp", "rvc-durable", "rvc-cli", "rvc-examples"],
    ),
    // The benchmark measures rvc-sign against ring itself.
    ("ring", &["rvc-sign", "rvc-bench"]),
    ("anyhow", &["rvc-cli", "rvc-bench", "rvc-examples", "xtask"]),
];

/// A dependency, or a crate, that the table does not allow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A crate has no row in the table.
    NoRow { from: String },
    /// A crate depends on another of ours that its row does not name.
    Forbidden { from: String, to: String },
    /// A crate names a package that belongs to others.
    Guarded { from: String, to: String },
}

/// Every violation, in the order of the members.
pub(crate) fn violations(metadata: &Metadata) -> Vec<Violation> {
    metadata.members().flat_map(of_member).collect()
}

/// The crates that others use, the table's first column.
pub(crate) fn published() -> impl Iterator<Item = &'static str> {
    ROWS.iter()
        .filter(|(_, audience, _)| *audience == Audience::Published)
        .map(|(name, _, _)| *name)
}

fn of_member(member: &Package) -> Vec<Violation> {
    let from = member.name.clone();
    let Some((_, _, ours)) = ROWS.iter().find(|(name, _, _)| *name == from) else {
        return vec![Violation::NoRow { from }];
    };
    let mut found = Vec::new();
    for dependency in &member.dependencies {
        let to = dependency.name.clone();
        if is_ours(&to) && to != from && !ours.allows(&to, dependency.is_dev()) {
            found.push(Violation::Forbidden {
                from: from.clone(),
                to: to.clone(),
            });
        }
        let owners = GUARDED.iter().find(|(name, _)| *name == to);
        if owners.is_some_and(|(_, owners)| !owners.contains(&from.as_str())) {
            found.push(Violation::Guarded {
                from: from.clone(),
                to,
            });
        }
    }
    found
}

fn is_ours(name: &str) -> bool {
    ROWS.iter().any(|(ours, _, _)| *ours == name)
}

impl Ours {
    fn allows(&self, to: &str, is_dev: bool) -> bool {
        match self {
            Self::NoneAtAll => false,
            Self::Only(names) => is_dev || names.contains(&to),
            Self::Any => true,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRow { from } => write!(f, "{from} has no row in xtask/src/edges.rs"),
            Self::Forbidden { from, to } => write!(f, "{from} may not depend on {to}"),
            Self::Guarded { from, to } => write!(f, "{from} may not name {to}"),
        }
    }
}

#[cfg(test)]
mod tests;
