use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::mpsc;
use std::thread;

use super::*;

/// Sends everything back. What it was sent is seen here, answered or not.
struct Echo {
    address: SocketAddr,
    seen: mpsc::Receiver<Vec<u8>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, seen) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let sender = sender.clone();
                thread::spawn(move || echo(stream.unwrap(), &sender));
            }
        });
        Self { address, seen }
    }
}

fn echo(mut stream: impl Read + Write, seen: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(bytes) = stream.read(&mut buffer) {
        if bytes == 0 || seen.send(buffer[..bytes].to_vec()).is_err() {
            return;
        }
        if stream.write_all(&buffer[..bytes]).is_err() {
            return;
        }
    }
}

fn ask(stream: &mut TcpStream, words: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(words)?;
    let mut answer = vec![0; words.len()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).unwrap()
}

#[test]
fn it_carries_both_ways_and_passes_an_end_on() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    let mut stream = connect(&proxy);

    assert_eq!(ask(&mut stream, b"one").unwrap(), b"one");
    stream.shutdown(Shutdown::Write).unwrap();

    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!((rest.len(), proxy.relayed()), (0, 1));
}

#[test]
fn it_reaches_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let (sender, _seen) = mpsc::channel();
    thread::spawn(move || echo(listener.accept().unwrap().0, &sender));
    let proxy = FaultProxy::start(Target::Unix(path)).unwrap();

    assert_eq!(ask(&mut connect(&proxy), b"one").unwrap(), b"one");
}

#[test]
fn a_cut_ends_what_is_open_and_takes_new_connections() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    let mut stream = connect(&proxy);
    ask(&mut stream, b"one").unwrap();

    proxy.cut();

    let mut rest = Vec::new();
    assert!(matches!(stream.read_to_end(&mut rest), Ok(0) | Err(_)));
    assert_eq!(ask(&mut connect(&proxy), b"two").unwrap(), b"two");
}

#[test]
fn while_it_refuses_nothing_passes_and_the_port_stays_its_own() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    ask(&mut connect(&proxy), b"one").unwrap();

    proxy.refuse();

    // The listener goes a moment later; until then a connection is taken and ended.
    loop {
        match TcpStream::connect(proxy.address()) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
            Err(_) => {}
            Ok(mut stream) => assert!(ask(&mut stream, b"two").is_err()),
        }
    }
    assert!(TcpListener::bind(proxy.address()).is_err());
    proxy.restore();
    let mut stream = loop {
        match TcpStream::connect(proxy.address()) {
            Ok(stream) => break stream,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
        }
    };
    assert_eq!(ask(&mut stream, b"three").unwrap(), b"three");
    let seen: Vec<_> = echo.seen.try_iter().collect();
    assert_eq!(seen, [b"one".to_vec(), b"three".to_vec()]);
}

#[test]
fn a_stall_takes_connections_and_carries_nothing_until_it_is_over() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    proxy.stall();
    let mut stream = connect(&proxy);
    stream.write_all(b"one").unwrap();
    let mut other = connect(&proxy);
    other
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();

    assert_eq!(
        ask(&mut other, b"two").unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert!(echo.seen.try_recv().is_err());

    proxy.restore();
    let mut answer = [0; 3];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"one");
}

#[test]
fn an_answer_is_lost_whose_request_arrived() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    proxy.cut_answers_after(3);
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"one").unwrap(), b"one");

    assert!(ask(&mut stream, b"two").is_err());

    let seen: Vec<_> = echo.seen.try_iter().collect();
    assert_eq!(seen, [b"one".to_vec(), b"two".to_vec()]);
    // Once.
    assert_eq!(ask(&mut connect(&proxy), b"three").unwrap(), b"three");
}

#[test]
fn an_answer_is_lost_for_what_is_in_it() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    proxy.cut_answer_with(b"COMMIT");
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, b"BEGIN").unwrap(), b"BEGIN");
    assert_eq!(proxy.lost_answers(), 0);

    assert!(ask(&mut stream, b"a COMMIT it is").is_err());

    assert_eq!(proxy.lost_answers(), 1);
    assert_eq!(ask(&mut connect(&proxy), b"COMMIT").unwrap(), b"COMMIT");
}

#[test]
fn new_connections_go_to_the_new_target() {
    let (before, after) = (Echo::start(), Echo::start());
    let proxy = FaultProxy::start(Target::Tcp(before.address)).unwrap();
    ask(&mut connect(&proxy), b"one").unwrap();

    proxy.retarget(Target::Tcp(after.address));
    ask(&mut connect(&proxy), b"two").unwrap();

    assert_eq!(before.seen.try_iter().count(), 1);
    assert_eq!(after.seen.try_iter().count(), 1);
}

#[test]
fn a_delay_holds_each_piece() {
    let echo = Echo::start();
    let proxy = FaultProxy::start(Target::Tcp(echo.address)).unwrap();
    let delay = Duration::from_millis(20);
    proxy.delay(delay);
    let begun = std::time::Instant::now();

    ask(&mut connect(&proxy), b"one").unwrap();

    // At least: both ways. A busy machine only makes it more.
    assert!(begun.elapsed() >= 2 * delay);
}
