//! Builds only while `rvc-wire` uses no standard library; then reads an event, writes it back,
//! and exits with 0.
//!
//! This program has a panic handler. A second one, from std, is an error of the compiler (E0152,
//! `panic_impl`). The feature `plant-std` shows that the check can fail.

#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use rvc_wire::{TaskEvent, Trigger};

const EVENT: &[u8] = br#"{"schema_version":1,"event_id":"8c1f0e2a-3f0d-4c59-9b52-6b1c6f5b7d11","task_id":"navi-7f3a2b","server":"navigation","tool":"navigate_to","type":"trigger_fired","seq":4,"ts":"2026-06-12T14:03:00.123Z","payload":{"trigger":{"type":"eta_below","seconds":10},"eta_s":9.4}}"#;

#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
    c_int::from(!(event_comes_back() && faults_are_refused()))
}

fn event_comes_back() -> bool {
    let Ok(event) = TaskEvent::from_json(EVENT) else {
        return false;
    };
    let trigger = event.payload["trigger"].as_object().cloned();
    event.to_json() == EVENT
        && trigger
            .is_some_and(|map| Trigger::try_from(map).is_ok_and(|it| it.kind() == "eta_below"))
}

fn faults_are_refused() -> bool {
    TaskEvent::from_json(&EVENT[1..]).is_err() && Trigger::try_from(rvc_wire::Map::new()).is_err()
}

/// Hands out a fixed piece of memory and takes none back: one event needs no more.
struct Arena {
    memory: UnsafeCell<[u8; SIZE]>,
    used: AtomicUsize,
}

const SIZE: usize = 1 << 20;

#[global_allocator]
static ALLOCATOR: Arena = Arena {
    memory: UnsafeCell::new([0; SIZE]),
    used: AtomicUsize::new(0),
};

// SAFETY: the memory is only reached through pieces that `alloc` hands out once.
unsafe impl Sync for Arena {}

// SAFETY: pieces are aligned, lie within the memory, and do not overlap.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.memory.get().cast::<u8>();
        let mut offset = 0;
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                let free = start as usize + used;
                offset = used + (free.next_multiple_of(layout.align()) - free);
                let end = offset.checked_add(layout.size())?;
                (end <= SIZE).then_some(end)
            });
        match taken {
            // SAFETY: `offset` lies within the memory, as was just checked.
            Ok(_) => unsafe { start.add(offset) },
            Err(_) => core::ptr::null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no preconditions.
    unsafe { abort() }
}

/// What the precompiled `core` and `alloc` name for unwinding, which cannot happen here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// The other half of it.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    // SAFETY: `abort` has no preconditions.
    unsafe { abort() }
}
