//! The release gate: its stages, in the order in which they run.

use anyhow::bail;

use crate::outcome::Outcome;
use crate::workspace::Workspace;
use crate::{builds, demo, deny, deploy, features, interop, no_std, postgres};

/// One stage of the gate.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) checks: &'static str,
    /// What to do when it fails.
    pub(crate) advice: &'static str,
    pub(crate) run: fn(&Workspace) -> anyhow::Result<Outcome>,
}

/// Every stage; what takes a moment comes before what takes minutes.
pub(crate) const STAGES: &[Stage] = &[
    Stage {
        name: "lock",
        checks: "Cargo.lock says what the manifests ask",
        advice: "run `cargo update --workspace` and commit Cargo.lock (for a no-std program add --manifest-path)",
        run: builds::lock,
    },
    Stage {
        name: "fmt",
        checks: "every file is as rustfmt writes it",
        advice: "run `cargo fmt --all`",
        run: builds::fmt,
    },
    Stage {
        name: "edges",
        checks: "each crate depends only on what its row allows",
        advice: "drop the dependency, or argue for a new edge in xtask/src/edges.rs",
        run: builds::edges,
    },
    Stage {
        name: "msrv",
        checks: "the stated Rust version is enough for every dependency",
        advice: "take an older release of the dependency, or raise rust-version in Cargo.toml and say so in CHANGELOG.md",
        run: builds::msrv,
    },
    Stage {
        name: "clippy",
        checks: "no warnings: all features, and each published crate with none",
        advice: "run `cargo clippy --fix` or mend by hand; an `allow` needs its reason beside it",
        run: builds::clippy,
    },
    Stage {
        name: "features",
        checks: "each published crate in every combination of its features",
        advice: "run the last command shown; mostly a `cfg(feature = …)` or a feature of a dependency is missing",
        run: features::stage,
    },
    Stage {
        name: "test",
        checks: "unit and integration tests",
        advice: "run one test with `cargo nextest run -p <crate> <name>`; a test that fails now and then is a bug",
        run: builds::test,
    },
    Stage {
        name: "postgres",
        checks: "rvc-durable on PostgreSQL, and two minutes of chaos",
        advice: "run one test with `cargo run -p rvc-test --bin with-postgres -- cargo nextest run …`; chaos prints its seed, RVC_CHAOS_SEED repeats it",
        run: postgres::stage,
    },
    Stage {
        name: "doc-test",
        checks: "the examples in the documentation",
        advice: "run `cargo test -p <crate> --doc`",
        run: builds::doc_test,
    },
    Stage {
        name: "doc",
        checks: "the documentation builds without warnings",
        advice: "mend the links that rustdoc names; read the result with `cargo doc --open`",
        run: builds::rustdoc,
    },
    Stage {
        name: "no-std",
        checks: "rvc-wire links without std, rvc-sign without an allocation too",
        advice: "a dependency's feature or a new line needs std or allocates: `cargo tree -e features` in the no-std program shows the former",
        run: no_std::stage,
    },
    Stage {
        name: "deny",
        checks: "licences, banned crates and sources are as deny.toml says",
        advice: "take another dependency, or change deny.toml with a reason; `cargo tree --invert <crate>` shows who asks for it",
        run: deny::stage,
    },
    Stage {
        name: "advisories",
        checks: "no known vulnerability among the dependencies",
        advice: "run `cargo update -p <crate>`; where no fix exists, ignore the advisory in deny.toml with a reason",
        run: deny::advisories,
    },
    Stage {
        name: "demo",
        checks: "`cargo rvc demo` sees every event, verified and in order",
        advice: "run `cargo rvc demo --log pretty` and read the timeline",
        run: demo::stage,
    },
    Stage {
        name: "interop",
        checks: "peers in Python and on Node, the MCP conformance suite among them, against the release binaries",
        advice: "run `cargo xtask ci interop`; the test's output has the peer's own words",
        run: interop::stage,
    },
    Stage {
        name: "deploy",
        checks: "systemd accepts the units in examples/deploy",
        advice: "systemd-analyze names the line; `man systemd.exec` has the options",
        run: deploy::stage,
    },
];

/// The stages of these names, in the order given; all of them for no name.
///
/// # Errors
/// When there is no stage of some name.
pub(crate) fn select(names: &[String]) -> anyhow::Result<Vec<&'static Stage>> {
    if names.is_empty() {
        return Ok(STAGES.iter().collect());
    }
    let mut chosen: Vec<&Stage> = Vec::new();
    for name in names {
        let Some(stage) = STAGES.iter().find(|stage| stage.name == name) else {
            bail!("no stage `{name}`; `cargo xtask ci --list` shows them");
        };
        if chosen.iter().all(|other| other.name != stage.name) {
            chosen.push(stage);
        }
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{STAGES, select};

    fn selected(names: &[&str]) -> anyhow::Result<Vec<&'static str>> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        Ok(select(&names)?.iter().map(|stage| stage.name).collect())
    }

    #[test]
    fn no_name_selects_the_whole_gate() {
        assert_eq!(selected(&[]).unwrap().len(), STAGES.len());
    }

    #[test]
    fn named_stages_run_once_each_in_the_order_given() {
        assert_eq!(
            selected(&["clippy", "fmt", "clippy"]).unwrap(),
            ["clippy", "fmt"]
        );
    }

    #[test]
    fn an_unknown_stage_is_refused_before_anything_runs() {
        let error = selected(&["fmt", "linting"]).unwrap_err();

        assert!(error.to_string().contains("no stage `linting`"));
    }

    #[test]
    fn every_stage_can_be_selected_and_says_what_to_do() {
        for stage in STAGES {
            assert_eq!(selected(&[stage.name]).unwrap(), [stage.name]);
            assert!(!stage.advice.is_empty() && !stage.checks.is_empty());
        }
    }
}
