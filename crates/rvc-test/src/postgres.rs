//! A throwaway `PostgreSQL` cluster, for tests that need the real one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A cluster in a temporary folder, reached over a Unix socket there. It ends when dropped.
///
/// Without `fsync` unless [`durable`](Self::start_durable): it survives an immediate stop of
/// the server, not of the machine.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    programs: PathBuf,
    runs_as: Option<Account>,
}

/// Whom the server runs as where we are root, which it refuses to run as.
#[derive(Clone, Copy, Debug)]
struct Account {
    user: u32,
    group: u32,
}

impl Cluster {
    /// Starts a new, empty cluster.
    ///
    /// # Errors
    ///
    /// No `PostgreSQL` on this machine, or one that does not start; the message has the
    /// server's own words.
    pub fn start() -> io::Result<Self> {
        Self::start_with(&[("fsync", "off")])
    }

    /// Starts a cluster that writes to the disk as in production, for measurements.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_durable() -> io::Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a cluster with options of the server, such as `("max_connections", "300")`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_with(options: &[(&str, &str)]) -> io::Result<Self> {
        let programs = programs().ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                "PostgreSQL is not installed (Debian: apt-get install postgresql)",
            )
        })?;
        // Short: the path of a Unix socket has room for about a hundred bytes.
        let folder = tempfile::Builder::new().prefix("rvc-pg-").tempdir()?;
        let runs_as = account(folder.path())?;
        let cluster = Self {
            folder,
            programs,
            runs_as,
        };
        cluster.run(
            "initdb",
            ["--auth=trust", "--username=postgres", "--encoding=UTF8"]
                .iter()
                .chain(&["--no-locale", "--no-sync", "--no-instructions", "--pgdata"])
                .map(OsStr::new)
                .chain([cluster.data().as_os_str()]),
        )?;
        let mut settings = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\n",
            cluster.socket_folder().display()
        );
        for (name, value) in options {
            settings.extend([name, " = '", value, "'\n"]);
        }
        let file = cluster.data().join("postgresql.auto.conf");
        fs::write(&file, settings)?;
        cluster.resume()?;
        Ok(cluster)
    }

    /// Starts a hot standby that follows this cluster, until it is promoted.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn standby(&self) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("rvc-pg-").tempdir()?;
        let standby = Self {
            runs_as: account(folder.path())?,
            folder,
            programs: self.programs.clone(),
        };
        let (primary, data) = (self.socket_folder(), standby.data());
        let fixed = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"].map(OsStr::new);
        let from = ["--username=postgres", "--host"].map(OsStr::new);
        let arguments = fixed.into_iter().chain(from).chain([
            primary.as_os_str(),
            OsStr::new("--pgdata"),
            data.as_os_str(),
        ]);
        standby.run("pg_basebackup", arguments)?;
        // The last line of a name counts.
        let file = data.join("postgresql.auto.conf");
        let own = standby.socket_folder().display().to_string();
        let settings = fs::read_to_string(&file)?;
        fs::write(
            &file,
            format!("{settings}unix_socket_directories = '{own}'\n"),
        )?;
        standby.resume()?;
        Ok(standby)
    }

    /// Makes a standby the primary.
    ///
    /// # Errors
    ///
    /// A cluster that is no standby.
    pub fn promote(&self) -> io::Result<()> {
        self.control(&["promote"])
    }

    /// Where clients connect: `postgresql:///DATABASE?host=FOLDER&user=postgres`.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let folder = self.socket_folder().display();
        format!("postgresql:///{database}?host={folder}&user=postgres")
    }

    /// The folder of the socket `.s.PGSQL.5432`.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// The socket itself, for a proxy.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.5432")
    }

    /// The folder of the server's and the clients' programs.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// The folder of the cluster's files.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Stops the server as a crash does; every connection breaks.
    ///
    /// # Errors
    ///
    /// A server that does not stop.
    pub fn crash(&self) -> io::Result<()> {
        self.control(&["stop", "-m", "immediate"])
    }

    /// Starts the server again after [`crash`](Self::crash).
    ///
    /// # Errors
    ///
    /// A server that does not start.
    pub fn resume(&self) -> io::Result<()> {
        let log = self.folder.path().join("log");
        self.control(&["start", "-l", &log.display().to_string()])
            .map_err(|error| {
                let words = fs::read_to_string(&log).unwrap_or_default();
                io::Error::other(format!("{error}\n{words}"))
            })
    }

    /// Creates a database.
    ///
    /// # Errors
    ///
    /// A name that is taken, or a server that is away.
    pub fn create_database(&self, name: &str) -> io::Result<()> {
        let folder = self.socket_folder().display().to_string();
        let arguments = ["-h", &folder, "-U", "postgres", name].map(OsStr::new);
        self.run("createdb", arguments).map(drop)
    }

    /// Runs SQL with `psql`, and returns what it prints: a line for each row, and nothing else.
    ///
    /// # Errors
    ///
    /// SQL that fails, or a server that is away.
    pub fn query(&self, database: &str, sql: &str) -> io::Result<String> {
        let folder = self.socket_folder().display().to_string();
        let fixed = ["-h", &folder, "-U", "postgres", "-d", database].map(OsStr::new);
        let quiet = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql].map(OsStr::new);
        self.run("psql", fixed.into_iter().chain(quiet))
    }

    fn control(&self, action: &[&str]) -> io::Result<()> {
        let data = self.data();
        let fixed = ["--silent", "--wait", "--timeout=60", "--pgdata"].map(OsStr::new);
        self.run(
            "pg_ctl",
            action
                .iter()
                .map(OsStr::new)
                .chain(fixed)
                .chain([data.as_os_str()]),
        )
        .map(drop)
    }

    fn run<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> io::Result<String> {
        use std::os::unix::process::CommandExt;

        let mut command = Command::new(self.programs.join(program));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        if let Some(account) = self.runs_as {
            command.uid(account.user).gid(account.group);
        }
        // Into files: a server that stays behind would keep a pipe open.
        let words = tempfile::tempfile()?;
        command
            .stdout(words.try_clone()?)
            .stderr(words.try_clone()?);
        let status = command.status()?;
        let mut said = String::new();
        io::Seek::rewind(&mut &words)?;
        io::Read::read_to_string(&mut &words, &mut said)?;
        if status.success() {
            return Ok(said);
        }
        Err(io::Error::other(format!("{program}: {status}\n{said}")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nothing of it is wanted any more; a crash is the quickest end.
        let _ = self.crash();
    }
}

/// The newest server on this machine: `$PG_BINDIR`, Debian's folders, or `$PATH`.
fn programs() -> Option<PathBuf> {
    let has_server = |folder: &PathBuf| folder.join("initdb").is_file();
    if let Some(folder) = std::env::var_os("PG_BINDIR") {
        return Some(PathBuf::from(folder)).filter(has_server);
    }
    let version = |folder: &PathBuf| -> u32 {
        let name = folder.parent().and_then(Path::file_name);
        name.and_then(OsStr::to_str)
            .and_then(|name| name.parse().ok())
            .unwrap_or(0)
    };
    let debian = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .filter(has_server)
        .max_by_key(version);
    debian.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(has_server)
    })
}

/// For root, the account of the Debian package; it gets the folder.
fn account(folder: &Path) -> io::Result<Option<Account>> {
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let account = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let user = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        (name == "postgres").then_some(Account { user, group })
    });
    let account = account
        .ok_or_else(|| io::Error::other("root needs the account `postgres` to run a server as"))?;
    chown(folder, Some(account.user), Some(account.group))?;
    Ok(Some(account))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
    fn a_cluster_survives_a_crash_of_its_server() {
        let cluster = Cluster::start().unwrap();
        cluster.create_database("before").unwrap();
        cluster.crash().unwrap();
        cluster.resume().unwrap();

        let again = cluster.create_database("before").unwrap_err();

        assert!(again.to_string().contains("already exists"), "{again}");
    }
}
