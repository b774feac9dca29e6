use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::time::{Instant, Sleep, sleep_until};

/// A deadline that is set thousands of times a second and almost never comes.
///
/// Its timer is armed again only after it has gone off: an alarm that was set for earlier and goes
/// off too soon is set for later then. One timer in ten seconds instead of one for every attempt.
#[derive(Default)]
pub(crate) struct Alarm {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// Runs a future until a deadline; `None` if that comes first.
    pub(crate) async fn before<T>(
        &mut self,
        deadline: Instant,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let mut future = pin!(future);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
        }
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            while sleep.as_mut().poll(cx).is_ready() {
                if deadline <= sleep.deadline() {
                    return Poll::Ready(None);
                }
                sleep.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_goes_off_at_each_deadline_whichever_came_before() {
        let mut alarm = Alarm::default();
        for after_s in [10, 3, 10, 1, 1, 20] {
            let start = Instant::now();
            let deadline = start + Duration::from_secs(after_s);
            assert_eq!(alarm.before(deadline, ready(1)).await, Some(1));
            assert_eq!(alarm.before(deadline, pending::<()>()).await, None);
            assert_eq!(start.elapsed(), Duration::from_secs(after_s));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_that_was_set_for_earlier_does_not_go_off_too_soon() {
        let mut alarm = Alarm::default();
        for _ in 0..100 {
            let deadline = Instant::now() + Duration::from_secs(2);
            let work = sleep(Duration::from_millis(1_999));
            assert_eq!(alarm.before(deadline, work).await, Some(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_has_passed_leaves_the_future_one_poll() {
        let mut alarm = Alarm::default();
        let past = Instant::now();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(alarm.before(past, ready(())).await, Some(()));
        assert_eq!(alarm.before(past, pending::<()>()).await, None);
    }
}
