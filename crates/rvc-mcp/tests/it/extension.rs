//! The official Tasks extension, and the contract beside it.

mod asking;
mod authority;
mod cancelling;
mod delegation;
mod faults;
mod http;
mod lifetime;
mod notifications;
mod started_once;
mod two_views;
mod worker;
