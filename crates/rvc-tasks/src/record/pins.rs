use super::Record;

/// Who wants what an ended task left to stay whole, whatever else has ended since.
#[derive(Debug, Default)]
pub(super) struct Pins {
    count: usize,
    /// The registry wanted it shed meanwhile.
    shed_due: bool,
}

impl Pins {
    /// Whether shedding must wait; it is done when the last pin is gone.
    pub(super) const fn put_off(&mut self) -> bool {
        if self.count > 0 {
            self.shed_due = true;
        }
        self.count > 0
    }
}

impl Record {
    pub(crate) fn pin(&self) {
        self.lock().pins.count += 1;
    }

    pub(crate) fn unpin(&self) {
        let shed = {
            let pins = &mut self.lock().pins;
            pins.count -= 1;
            pins.count == 0 && std::mem::take(&mut pins.shed_due)
        };
        if shed {
            self.shed();
        }
    }
}
