//! One module for each command.

pub(crate) mod action;
pub(crate) mod demo;
pub(crate) mod event;
pub(crate) mod listen;
pub(crate) mod registration;
pub(crate) mod sign;
pub(crate) mod supervise;
pub(crate) mod verify;
