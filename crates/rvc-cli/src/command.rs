//! One module for each command.

pub(crate) mod demo;
pub(crate) mod event;
pub(crate) mod listen;
pub(crate) mod sign;
pub(crate) mod verify;
