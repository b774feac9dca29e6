use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rvc_durable::{ActionView, Phase};
use tokio::sync::mpsc;

/// A child process that supervises, and what it prints. It is killed when it is dropped.
pub(super) struct Supervisor {
    child: Child,
    views: mpsc::UnboundedReceiver<ActionView>,
}

impl Supervisor {
    pub(super) fn start(database: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args([
                "supervise",
                "--json",
                "--lease",
                "1s",
                "--max-poll",
                "500ms",
            ])
            .arg("--db")
            .arg(database)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a supervisor")?;
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, views) = mpsc::unbounded_channel();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Ok(view) = serde_json::from_str(&line) {
                    let _ = sender.send(view);
                }
            }
        });
        Ok(Self { child, views })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it prints the action in `phase`.
    pub(super) async fn reaches(&mut self, phase: Phase) -> anyhow::Result<ActionView> {
        while let Some(view) = self.views.recv().await {
            if view.phase == phase {
                return Ok(view);
            }
        }
        bail!("the supervisor ended before the action was {phase}")
    }

    /// `SIGKILL`: it is told nothing and can do nothing.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill the supervisor")?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it ends by itself.
    pub(super) async fn ends(mut self) -> anyhow::Result<Option<i32>> {
        while self.views.recv().await.is_some() {}
        Ok(self.child.wait()?.code())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
