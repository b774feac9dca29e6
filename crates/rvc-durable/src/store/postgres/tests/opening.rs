use futures_util::future::join_all;
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::*;

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn eight_that_open_an_empty_database_at_once_find_one_schema() {
    let database = Database::create().await;
    let url = database.url();

    let opened = join_all((0..8).map(|_| PostgresStore::open(&url))).await;

    for (n, store) in opened.into_iter().enumerate() {
        submit(&store.unwrap(), &format!("a{n}")).await;
    }
    let sql = "SELECT version FROM schema_version";
    let rows = database.client().await.query(sql, &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [1]);
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_database_that_cannot_keep_every_text_is_refused() {
    let database = Database::create().await;
    let name = format!("{}latin", database.name);
    let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0");
    database
        .client()
        .await
        .batch_execute(&create)
        .await
        .unwrap();

    let opened = PostgresStore::open(&database.url().replace(&database.name, &name)).await;

    let refused = opened.err().unwrap();
    assert!(refused.to_string().contains("UTF8"), "{refused}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn a_newer_schema_and_a_stranger_s_tables_are_refused_and_left_alone() {
    let newer = StoreError::NewerSchema { found: 7, known: 1 };
    for (tables, refused) in [
        ("CREATE TABLE runs (id int)", StoreError::Foreign),
        (
            "CREATE TABLE schema_version (version int)",
            StoreError::Foreign,
        ),
        (
            "CREATE TABLE schema_version (application text, version int)",
            StoreError::Foreign,
        ),
        (
            "CREATE TABLE schema_version (application text, version int); \
             INSERT INTO schema_version VALUES ('rvc-durable', 7)",
            newer,
        ),
    ] {
        let database = Database::create().await;
        let client = database.client().await;
        client.batch_execute(tables).await.unwrap();

        let opened = PostgresStore::open(&database.url()).await;

        assert_eq!(opened.err(), Some(refused), "{tables}");
        let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
        let count: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
        assert_eq!(count, 1, "{tables}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn tables_live_where_the_search_path_says_and_need_no_right_to_create_once_there() {
    let database = Database::create().await;
    let client = database.client().await;
    let url = format!("{}&options=-csearch_path%3Drobots", database.url());
    let nowhere = PostgresStore::open(&url).await;
    assert!(matches!(nowhere.err(), Some(StoreError::Open { .. })));
    client
        .batch_execute("CREATE SCHEMA robots; CREATE TABLE public.runs (other int)")
        .await
        .unwrap();
    let existing = PostgresOptions::url(&url).unwrap().existing().open().await;
    assert!(matches!(existing.err(), Some(StoreError::Open { .. })));

    submit(&PostgresStore::open(&url).await.unwrap(), "a").await;

    let role = format!("r{}", Uuid::new_v4().simple());
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA robots TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA robots TO {role}"
        ))
        .await
        .unwrap();
    let limited = url.replace("user=postgres", &format!("user={role}"));
    let store = PostgresOptions::url(&limited).unwrap().existing();
    let store = store.open().await.unwrap();
    assert_eq!(claim(&store).await.row.action, id("a"));
    client
        .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await
        .unwrap();
}

#[tokio::test]
async fn the_password_is_in_no_error_and_not_in_what_debug_shows() {
    let secret = "p4ssw0rd";
    let short = Duration::from_millis(50);
    for url in [
        format!("postgres://u:{secret}@127.0.0.1:1/db"),
        format!("postgres://u:{secret}@nowhere.invalid/db"),
        format!("postgres://u@/db?host=/nowhere&password={secret}"),
        // Slips: an @, a ?, a / or a # that is not encoded, a port that is none.
        format!("postgres://u:@{secret}@127.0.0.1:1/db"),
        format!("postgres://u:?{secret}@127.0.0.1:1/db"),
        format!("postgres://u:/{secret}@127.0.0.1:1/db"),
        format!("postgres://u:#{secret}@127.0.0.1:1/db"),
        format!("postgres://u?{secret}=1"),
        format!("postgres://127.0.0.1:{secret}/db"),
        format!("postgres://u:{secret}@127.0.0.1/db?sslmode={secret}"),
        format!("mysql://u:{secret}@127.0.0.1/db"),
    ] {
        let error = match PostgresOptions::url(&url) {
            Err(error) => error,
            Ok(options) => {
                let shown = format!("{options:?}");
                assert!(!shown.contains(secret), "{url}: {shown}");
                options.patience(short).open().await.err().unwrap()
            }
        };
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(secret), "{url}: {shown}");
    }
}

/// Speaks TLS before the server's socket, as a server that has a certificate does.
async fn tls_before(socket: PathBuf, name: &str) -> (u16, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (acceptor, socket) = (acceptor.clone(), socket.clone());
            tokio::spawn(async move {
                // SSLRequest, and the consent to it.
                client.read_exact(&mut [0; 8]).await?;
                client.write_all(b"S").await?;
                let mut client = acceptor.accept(client).await?;
                let mut server = UnixStream::connect(socket).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (port, certificate.pem())
}

#[tokio::test]
#[ignore = "needs PostgreSQL; `cargo xtask ci postgres` runs it"]
async fn tls_verifies_the_server_s_certificate_and_name() {
    let database = Database::create().await;
    let (port, pem) = tls_before(database.socket(), "localhost").await;
    let (other_port, other_pem) = tls_before(database.socket(), "elsewhere").await;
    let options = |port: u16, mode: &str| {
        let name = &database.name;
        let url = format!(
            "postgres://postgres@localhost:{port}/{name}?hostaddr=127.0.0.1&sslmode={mode}"
        );
        let options = PostgresOptions::url(&url).unwrap();
        options.patience(Duration::from_secs(1))
    };

    for mode in ["require", "verify-full", "prefer"] {
        let trusting = options(port, mode)
            .root_certificates(pem.as_bytes())
            .unwrap();
        submit(&trusting.open().await.unwrap(), mode).await;
        let unknown = options(port, mode).open().await;
        assert!(unknown.is_err(), "{mode}: nobody vouches for it");
        let stranger = options(other_port, mode);
        let stranger = stranger.root_certificates(other_pem.as_bytes()).unwrap();
        assert!(stranger.open().await.is_err(), "{mode}: not its name");
    }
}
