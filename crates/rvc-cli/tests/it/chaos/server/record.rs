//! What became of one start.

use std::time::{Duration, Instant};

use rmcp::model::TaskPayload;
use serde_json::{Value, json};

use crate::serving::{completed, question};

#[derive(Clone)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) action: String,
    /// Unique, and what its result says.
    pub(super) value: String,
    pub(super) begun: Instant,
    pub(super) work: Duration,
    pub(super) is_answered: bool,
    pub(super) is_cancelled: bool,
}

/// How far a start has come, at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    UnderWay,
    Ended,
    Cancelled,
}

impl Record {
    pub(super) fn standing(&self) -> Standing {
        let is_done = match self.tool.as_str() {
            "roam" => false,
            "ask" => self.is_answered,
            _ => self.begun.elapsed() >= self.work,
        };
        match is_done {
            _ if self.is_cancelled => Standing::Cancelled,
            true => Standing::Ended,
            false => Standing::UnderWay,
        }
    }

    /// How its work ends, if nobody cancels it.
    pub(super) fn status(&self) -> &'static str {
        match self.tool.as_str() {
            "jam" | "scratch" => "error",
            "fall" | "spill" | "refuse" => "failed",
            _ => "completed",
        }
    }

    /// What a task's holder is told.
    pub(super) fn payload(&self, standing: Standing) -> TaskPayload {
        match (standing, self.status()) {
            (Standing::Cancelled, _) => TaskPayload::Cancelled,
            (Standing::UnderWay, _) if self.tool == "ask" => question(),
            (Standing::UnderWay, _) => TaskPayload::Working,
            (Standing::Ended, "failed") => {
                let error = json!({"code": -32_050, "message": self.value});
                TaskPayload::Failed {
                    error: error.as_object().unwrap().clone(),
                }
            }
            (Standing::Ended, status) => completed(&self.value, status == "error"),
        }
    }

    /// The contract's `TaskInfo`; each life of the server has another clock.
    pub(super) fn info(&self, standing: Standing, life: u32) -> Value {
        let (state, result, failure) = match (standing, self.status()) {
            (Standing::Cancelled, _) => ("cancelled", Value::Null, Value::Null),
            (Standing::UnderWay, _) => ("running", Value::Null, Value::Null),
            (Standing::Ended, "failed") => {
                let failure = json!({"error_code": "SPILLED", "message": self.value});
                ("failed", Value::Null, failure)
            }
            (Standing::Ended, _) => ("succeeded", json!({"at": self.value}), Value::Null),
        };
        let created_at = format!("2026-06-12T14:{:02}:{:02}Z", life / 60 % 60, life % 60);
        json!({
            "task_id": self.id, "server": "robot", "tool": self.tool, "state": state,
            "created_at": created_at, "updated_at": created_at,
            "result": result, "failure": failure, "progress": {"percent": 50},
        })
    }
}
