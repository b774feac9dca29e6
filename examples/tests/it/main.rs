//! The example programs as processes, and the files beside them that nothing else compiles.

mod brain;
mod deploy;
mod program;
mod readme;
mod receiver;
mod servers;
mod variables;
