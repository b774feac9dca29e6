//! The examples are beside this file, one a program.
