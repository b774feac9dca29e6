//! Which workers exist and which of them rest: no I/O.
//!
//! A worker is a tokio task with one connection. It is woken or hired only when there is an
//! attempt that nobody else was called for.

use std::sync::Arc;

use tokio::sync::Notify;

#[derive(Debug)]
pub(crate) struct Crew {
    places: Vec<Place>,
    /// The last to rest is called first: its connection is the freshest.
    resting: Vec<usize>,
    called: usize,
    working: usize,
}

#[derive(Debug)]
struct Place {
    state: PlaceState,
    bell: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceState {
    Free,
    Called,
    Working,
    Resting,
}

/// What it takes to get one more worker to work.
#[derive(Debug)]
pub(crate) enum Call {
    /// Ring for one that rests.
    Ring(Arc<Notify>),
    /// Hire one for a free place.
    Hire(usize),
}

impl Crew {
    pub(crate) fn new(places: usize) -> Self {
        let place = || Place {
            state: PlaceState::Free,
            bell: Arc::new(Notify::new()),
        };
        Self {
            places: (0..places).map(|_| place()).collect(),
            resting: Vec::new(),
            called: 0,
            working: 0,
        }
    }

    /// Calls one more worker, if there is more to do than workers are on their way.
    pub(crate) fn call(&mut self, attempts: usize) -> Option<Call> {
        if attempts <= self.called {
            return None;
        }
        let index = self.resting.pop().or_else(|| {
            let is_free = |place: &Place| place.state == PlaceState::Free;
            self.places.iter().position(is_free)
        })?;
        let place = &mut self.places[index];
        let call = match place.state {
            PlaceState::Free => Call::Hire(index),
            _ => Call::Ring(place.bell.clone()),
        };
        place.state = PlaceState::Called;
        self.called += 1;
        Some(call)
    }

    /// What rings for the worker of a place.
    pub(crate) fn bell(&self, index: usize) -> Arc<Notify> {
        self.places[index].bell.clone()
    }

    /// How many workers make an attempt or look for one.
    pub(crate) fn working(&self) -> usize {
        self.working
    }

    /// The worker looks for work.
    pub(crate) fn works(&mut self, index: usize) {
        self.enter(index, PlaceState::Working);
    }

    /// The worker found none.
    pub(crate) fn rests(&mut self, index: usize) {
        self.enter(index, PlaceState::Resting);
    }

    /// The worker wants to go home; false if it was called in the meantime.
    pub(crate) fn may_leave(&self, index: usize) -> bool {
        self.places[index].state == PlaceState::Resting
    }

    /// The worker is gone.
    pub(crate) fn left(&mut self, index: usize) {
        self.enter(index, PlaceState::Free);
    }

    fn enter(&mut self, index: usize, state: PlaceState) {
        let before = std::mem::replace(&mut self.places[index].state, state);
        if before == state {
            return;
        }
        match before {
            PlaceState::Called => self.called -= 1,
            PlaceState::Resting => self.resting.retain(|&other| other != index),
            PlaceState::Working => self.working -= 1,
            PlaceState::Free => {}
        }
        match state {
            PlaceState::Resting => self.resting.push(index),
            PlaceState::Working => self.working += 1,
            PlaceState::Called | PlaceState::Free => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn as_many_are_called_as_there_are_attempts_and_places() {
        let mut crew = Crew::new(2);
        assert!(crew.call(0).is_none());
        assert!(matches!(crew.call(1), Some(Call::Hire(0))));
        assert!(crew.call(1).is_none(), "one is on its way");
        assert!(matches!(crew.call(2), Some(Call::Hire(1))));
        assert!(crew.call(3).is_none(), "there is no third place");

        crew.works(0);
        crew.works(1);
        assert!(crew.call(1).is_none(), "both work");
        assert_eq!(crew.working(), 2);
    }

    #[test]
    fn the_last_to_rest_is_called_first() {
        let mut crew = Crew::new(2);
        for index in [0, 1] {
            crew.call(index + 1);
        }
        for index in [0, 1] {
            crew.works(index);
            crew.rests(index);
        }
        let Call::Ring(bell) = crew.call(1).unwrap() else {
            panic!("nobody needs to be hired");
        };
        assert!(Arc::ptr_eq(&bell, &crew.bell(1)));
        assert!(!crew.may_leave(1));
        assert!(crew.may_leave(0));
    }

    #[test]
    fn a_worker_that_vanishes_leaves_its_place_whatever_it_did() {
        let mut crew = Crew::new(1);
        for steps in 0..4 {
            assert!(matches!(crew.call(1), Some(Call::Hire(0))), "{steps}");
            if steps > 0 {
                crew.works(0);
            }
            if steps > 1 {
                crew.rests(0);
            }
            if steps > 2 {
                crew.call(1);
            }
            crew.left(0);
            assert_eq!(crew.working(), 0, "{steps}");
        }
    }
}
