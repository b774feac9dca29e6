#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io;

use http::StatusCode;
use proptest::prelude::*;

use super::*;

fn schedule(max_connections: usize) -> Schedule {
    Schedule::new(max_connections, TEN_MINUTES)
}

fn refused(retry_after: Option<Duration>) -> Arc<DeliveryError> {
    Arc::new(DeliveryError::Refused {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        retry_after,
        answer: String::new(),
    })
}

fn unreached() -> Arc<DeliveryError> {
    Arc::new(DeliveryError::Connect(
        io::ErrorKind::ConnectionRefused.into(),
    ))
}

fn hung() -> Arc<DeliveryError> {
    Arc::new(DeliveryError::AnswerTimeout(Duration::from_secs(10)))
}

fn acknowledge(schedule: &mut Schedule, id: LineId, more: bool, now: Instant) {
    schedule.acknowledged(id, Opened::ForThisAttempt);
    schedule.next_event(id, more, now);
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Attempts one line's event until it is given up; returns when, in ms from its arrival.
fn attempts_until_given_up(error: &Arc<DeliveryError>) -> (Vec<u128>, u128) {
    let start = Instant::now();
    let mut now = start;
    let mut schedule = schedule(8);
    let mut attempts = Vec::new();
    schedule.arrived(LINE, now);
    loop {
        let since_start_ms = now.duration_since(start).as_millis();
        if let Some(line) = schedule.expired(now) {
            assert_eq!(line, LINE);
            assert_eq!(
                schedule.attempts(line),
                u32::try_from(attempts.len()).unwrap()
            );
            return (attempts, since_start_ms);
        }
        schedule.release_due(now);
        if let Some(line) = schedule.take(now) {
            attempts.push(since_start_ms);
            schedule.failed(line, error, Opened::ForThisAttempt, now);
        }
        now = schedule.next_change(now).unwrap();
    }
}

#[test]
fn a_line_whose_only_event_gives_way_again_and_again_leaves_nothing_behind() {
    let now = Instant::now();
    let mut schedule = schedule(8);
    schedule.arrived(LINE, now);
    for _ in 0..1_000 {
        schedule.arrived(LineId(1), now);
        schedule.front_shed(LineId(1), false, now);
    }
    let ready: Vec<_> = schedule.ready.iter().flatten().collect();
    assert_eq!(ready, [&(0, LINE)]);
    assert_eq!(schedule.expiry.len(), 1);
}

#[test]
fn an_event_is_retried_after_half_a_second_two_eight_and_thirties_until_ten_minutes_are_over() {
    for error in [refused(None), unreached(), hung()] {
        let (attempts, given_up) = attempts_until_given_up(&error);
        assert_eq!(
            attempts[..6],
            [0, 500, 2_500, 10_500, 40_500, 70_500],
            "{error}"
        );
        assert_eq!((attempts.len(), attempts[22]), (23, 580_500), "{error}");
        assert_eq!(given_up, 600_000, "{error}");
    }
}

#[test]
fn retry_after_lengthens_a_delay_inside_the_limit() {
    let (attempts, given_up) = attempts_until_given_up(&refused(Some(seconds(60.0))));
    assert_eq!(attempts[..3], [0, 60_000, 120_000]);
    assert_eq!((attempts.len(), given_up), (10, 600_000));

    let (attempts, _) = attempts_until_given_up(&refused(Some(seconds(1.0))));
    assert_eq!(attempts[..4], [0, 1_000, 3_000, 11_000]);

    for too_long in [seconds(601.0), Duration::from_secs(u64::MAX)] {
        let (attempts, given_up) = attempts_until_given_up(&refused(Some(too_long)));
        assert_eq!((attempts, given_up), (vec![0], 600_000));
    }
}

#[test]
fn an_attempt_that_fails_after_the_limit_is_the_last_one() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    schedule.arrived(LINE, start);
    schedule.take(start).unwrap();
    let late = start + TEN_MINUTES;
    assert_eq!(schedule.expired(late), None, "it is still in flight");
    assert_eq!(
        schedule.failed(LINE, &hung(), Opened::Earlier, late),
        Fate::GiveUp
    );
}

#[test]
fn an_events_ten_minutes_begin_when_it_comes_to_the_head() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    schedule.arrived(LINE, start);
    schedule.take(start).unwrap();
    schedule.failed(LINE, &refused(None), Opened::Earlier, start);

    let limit = start + TEN_MINUTES;
    assert_eq!(schedule.expired(limit), Some(LINE));
    schedule.next_event(LINE, true, limit);

    assert_eq!(schedule.attempts(LINE), 0);
    assert_eq!(
        schedule.take(limit),
        Some(LINE),
        "the next one goes at once"
    );
    schedule.failed(LINE, &refused(None), Opened::Earlier, limit);
    assert_eq!(schedule.expired(limit + seconds(599.0)), None);
    assert_eq!(schedule.expired(limit + TEN_MINUTES), Some(LINE));
}

#[test]
fn lines_take_turns() {
    let now = Instant::now();
    let mut schedule = schedule(1);
    for line in 0..3 {
        schedule.arrived(LineId(line), now);
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let line = schedule.take(now).unwrap();
        order.push(line.0);
        acknowledge(&mut schedule, line, true, now);
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn of_a_line_at_most_one_event_is_in_flight() {
    let now = Instant::now();
    let mut schedule = schedule(8);
    schedule.arrived(LINE, now);
    assert_eq!(schedule.take(now), Some(LINE));
    schedule.arrived(LINE, now);
    assert_eq!(schedule.take(now), None);
}

#[test]
fn failing_tasks_use_at_most_half_of_the_connections() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    for line in 0..100 {
        schedule.arrived(LineId(line), start);
    }
    // Nothing is known to fail yet, so all connections are used.
    let first: Vec<_> = (0..8).map(|_| schedule.take(start).unwrap()).collect();
    let healthy = first[7];
    acknowledge(&mut schedule, healthy, false, start);
    let now = start + seconds(10.0);
    for &line in &first[..7] {
        schedule.failed(line, &hung(), Opened::ForThisAttempt, now);
    }

    let later = now + seconds(1.0);
    schedule.release_due(later);
    let suspects = std::iter::from_fn(|| schedule.take(later)).count();
    assert_eq!(suspects, 4);

    schedule.arrived(healthy, later);
    assert_eq!(schedule.takeable(later), 1);
    assert_eq!(schedule.take(later), Some(healthy));
}

#[test]
fn a_new_task_goes_before_those_that_are_known_to_fail() {
    let start = Instant::now();
    let mut schedule = schedule(2);
    schedule.arrived(LINE, start);
    schedule.take(start).unwrap();
    schedule.failed(LINE, &refused(None), Opened::ForThisAttempt, start);
    let now = start + seconds(1.0);
    schedule.release_due(now);
    schedule.arrived(LineId(1), now);
    assert_eq!(schedule.take(now), Some(LineId(1)));
    assert_eq!(schedule.take(now), None, "its half is in use");
}

#[test]
fn one_connection_is_enough_for_failing_tasks_to_be_retried() {
    let (start, mut schedule) = (Instant::now(), schedule(1));
    schedule.arrived(LINE, start);
    schedule.take(start).unwrap();
    schedule.failed(LINE, &refused(None), Opened::ForThisAttempt, start);
    let now = start + seconds(0.5);
    schedule.release_due(now);
    assert_eq!(schedule.take(now), Some(LINE));
}

#[test]
fn an_unreachable_endpoint_gets_one_probe_at_a_time() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    for line in 0..100 {
        schedule.arrived(LineId(line), start);
    }
    // Eight attempts begin before any has failed.
    let first: Vec<_> = (0..8).map(|_| schedule.take(start).unwrap()).collect();
    for line in first {
        schedule.failed(line, &unreached(), Opened::ForThisAttempt, start);
    }
    let mut probes = Vec::new();
    let mut now = start;
    while now < start + seconds(100.0) {
        schedule.release_due(now);
        if let Some(line) = schedule.take(now) {
            probes.push(now.duration_since(start).as_secs_f64());
            assert_eq!(schedule.takeable(now), 0, "one at a time");
            schedule.failed(line, &unreached(), Opened::ForThisAttempt, now);
        }
        now = schedule.next_change(now).unwrap();
    }
    assert_eq!(probes, [0.5, 2.5, 10.5, 40.5, 70.5]);

    // A probe that gets through lets everybody go at once.
    now = start + seconds(100.5);
    let probe = schedule.take(now).unwrap();
    acknowledge(&mut schedule, probe, false, now);
    assert_eq!(schedule.takeable(now), 99);
}

#[test]
fn an_event_that_was_never_attempted_is_given_up_with_the_outages_error() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    for line in 0..2 {
        schedule.arrived(LineId(line), start);
    }
    schedule.take(start).unwrap();
    schedule.failed(LineId(0), &unreached(), Opened::ForThisAttempt, start);
    assert_eq!(schedule.attempts(LineId(1)), 0);
    assert!(schedule.last_error(LineId(1)).unwrap().is_unreached());
    assert_eq!(schedule.expired(start + TEN_MINUTES), Some(LineId(0)));
    schedule.next_event(LineId(0), false, start + TEN_MINUTES);
    assert_eq!(schedule.expired(start + TEN_MINUTES), Some(LineId(1)));
}

#[test]
fn a_kept_connection_that_still_works_does_not_end_the_delays_of_refused_ones() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    schedule.arrived(LineId(0), start);
    schedule.arrived(LineId(1), start);
    schedule.take(start).unwrap();
    schedule.take(start).unwrap();
    schedule.failed(LineId(1), &unreached(), Opened::ForThisAttempt, start);
    schedule.acknowledged(LineId(0), Opened::Earlier);
    schedule.next_event(LineId(0), true, start);

    assert_eq!(
        schedule.take(start),
        Some(LineId(0)),
        "the endpoint is there"
    );
    assert_eq!(schedule.take(start), None, "the other one waits");
    schedule.release_due(start + seconds(0.5));
    assert_eq!(schedule.take(start + seconds(0.5)), Some(LineId(1)));
}

#[test]
fn a_probe_whose_worker_vanishes_does_not_end_the_probing() {
    let start = Instant::now();
    let mut schedule = schedule(8);
    schedule.arrived(LINE, start);
    schedule.take(start).unwrap();
    schedule.failed(LINE, &unreached(), Opened::ForThisAttempt, start);
    let now = start + seconds(0.5);
    schedule.release_due(now);
    schedule.take(now).unwrap();
    assert_eq!(schedule.attempts(LINE), 2);
    schedule.abandoned(LINE);
    assert_eq!(schedule.attempts(LINE), 1);
    assert_eq!(schedule.take(now), Some(LINE));
}

#[test]
fn a_bounded_number_of_idle_tasks_is_remembered() {
    let now = Instant::now();
    let mut schedule = schedule(8);
    let mut idle_since = now;
    for line in 0..IDLE_LINES {
        schedule.arrived(LineId(line), now);
        schedule.next_event(LineId(line), false, idle_since);
        idle_since += seconds(1.0);
    }
    assert_eq!(schedule.excess_idle(), None);
    schedule.arrived(LineId(IDLE_LINES), now);
    schedule.next_event(LineId(IDLE_LINES), false, idle_since);
    assert_eq!(schedule.excess_idle(), Some(LineId(0)));
    schedule.forget(LineId(0));
    assert_eq!(schedule.excess_idle(), None);
}

proptest! {
    /// Whatever happens, the counters and sets agree with the lines' phases, no line is lost, and
    /// everything is delivered in the end.
    #[test]
    fn no_line_is_ever_stuck(
        lines in 1..20_usize,
        max_connections in 1..9_usize,
        faults in prop::collection::vec(0..5_u8, 0..200),
    ) {
        let mut now = Instant::now();
        let mut schedule = schedule(max_connections);
        let mut flying: VecDeque<LineId> = VecDeque::new();
        let mut left = lines;
        for line in 0..lines {
            schedule.arrived(LineId(line), now);
        }
        let mut faults = faults.into_iter();
        while left > 0 {
            while flying.len() < max_connections && let Some(line) = schedule.take(now) {
                prop_assert!(!flying.contains(&line));
                flying.push_back(line);
            }
            let suspects = flying.iter().filter(|it| schedule.plan(**it).standing.is_suspect());
            prop_assert_eq!(suspects.count(), schedule.suspects_in_flight);
            if let Some(line) = flying.pop_front() {
                let error = match faults.next() {
                    None => {
                        acknowledge(&mut schedule, line, false, now);
                        left -= 1;
                        continue;
                    }
                    Some(0) => {
                        schedule.abandoned(line);
                        continue;
                    }
                    Some(1) => unreached(),
                    Some(2) => hung(),
                    Some(3) => refused(None),
                    Some(_) => refused(Some(seconds(100.0))),
                };
                if schedule.failed(line, &error, Opened::ForThisAttempt, now) == Fate::GiveUp {
                    schedule.next_event(line, false, now);
                    left -= 1;
                }
            } else {
                let next = schedule.next_change(now);
                prop_assert!(next.is_some(), "stuck with {} lines left", left);
                now = next.unwrap();
                while let Some(line) = schedule.expired(now) {
                    schedule.next_event(line, false, now);
                    left -= 1;
                }
                schedule.release_due(now);
            }
        }
        prop_assert!(schedule.waiting.is_empty() && schedule.expiry.is_empty());
        prop_assert!(schedule.ready.iter().all(BTreeSet::is_empty));
        prop_assert_eq!(schedule.troubled_with_events, 0);
    }
}

const LINE: LineId = LineId(0);
const TEN_MINUTES: Duration = Duration::from_secs(600);
