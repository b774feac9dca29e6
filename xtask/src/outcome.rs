//! How a stage ended, and whether the gate may pass with it.

/// How a stage ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and found nothing. The test runner's own summary, if there is one,
    /// is repeated at the gate's end.
    Passed { summary: Option<String> },
    /// It could not run, for a reason that a user can remove.
    Skipped { reason: String },
    /// It could not run, for a reason that lies outside: never a failure.
    Excused { reason: String },
    /// It found a fault.
    Failed {
        error: String,
        summary: Option<String>,
    },
}

/// Where the gate runs: on a developer's machine a stage may be skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A developer's machine.
    Desk,
    /// `CI=true`: what was not checked is not good.
    Ci,
}

impl Outcome {
    /// The outcome of a stage that passed and has nothing to add.
    pub(crate) fn passed() -> Self {
        Self::Passed { summary: None }
    }

    /// The outcome of a stage that failed and has no summary.
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self::Failed {
            error: error.into(),
            summary: None,
        }
    }

    /// What the test runner said at its end.
    pub(crate) fn summary(&self) -> Option<&str> {
        match self {
            Self::Passed { summary } | Self::Failed { summary, .. } => summary.as_deref(),
            Self::Skipped { .. } | Self::Excused { .. } => None,
        }
    }

    /// Whether the gate fails because of this outcome.
    pub(crate) fn fails_the_gate(&self, place: Place) -> bool {
        match self {
            Self::Passed { .. } | Self::Excused { .. } => false,
            Self::Skipped { .. } => place == Place::Ci,
            Self::Failed { .. } => true,
        }
    }

    /// One word for the final table.
    pub(crate) fn word(&self, place: Place) -> &'static str {
        match self {
            Self::Passed { .. } => "passed",
            Self::Skipped { .. } if place == Place::Ci => "FAILED (skipped)",
            Self::Skipped { .. } | Self::Excused { .. } => "skipped",
            Self::Failed { .. } => "FAILED",
        }
    }
}

impl Place {
    /// Reads the `CI` variable, which CI systems set to `true`.
    pub(crate) fn from_variable(ci: Option<&str>) -> Self {
        match ci {
            None | Some("" | "0" | "false") => Self::Desk,
            Some(_) => Self::Ci,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Place};

    fn skipped() -> Outcome {
        Outcome::Skipped {
            reason: "python3 is missing".to_owned(),
        }
    }

    #[test]
    fn a_skipped_stage_fails_the_gate_in_ci_alone() {
        assert!(!skipped().fails_the_gate(Place::Desk));
        assert!(skipped().fails_the_gate(Place::Ci));
    }

    #[test]
    fn an_excused_stage_never_fails_the_gate() {
        let excused = Outcome::Excused {
            reason: "the advisory database is out of reach".to_owned(),
        };

        assert!(!excused.fails_the_gate(Place::Ci));
    }

    #[test]
    fn a_failed_stage_fails_the_gate_everywhere() {
        let failed = Outcome::failed("exit code 1");

        assert!(failed.fails_the_gate(Place::Desk));
        assert!(failed.fails_the_gate(Place::Ci));
    }

    #[test]
    fn the_ci_variable_counts_unless_empty_or_false() {
        for (value, place) in [
            (None, Place::Desk),
            (Some(""), Place::Desk),
            (Some("0"), Place::Desk),
            (Some("false"), Place::Desk),
            (Some("true"), Place::Ci),
            (Some("1"), Place::Ci),
        ] {
            assert_eq!(Place::from_variable(value), place, "CI={value:?}");
        }
    }
}
