use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

/// What others keep beside a manager, one of each type.
#[derive(Default)]
pub(crate) struct Companions {
    all: Mutex<Vec<Arc<dyn Any + Send + Sync>>>,
}

impl Companions {
    pub(crate) fn get<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all
            .iter()
            .find_map(|any| Arc::clone(any).downcast::<T>().ok());
        found.unwrap_or_else(|| {
            let made = Arc::new(T::default());
            all.push(Arc::clone(&made) as _);
            made
        })
    }
}
