use std::ffi::OsStr;
use std::io::{self, IsTerminal};

/// Whether standard output takes colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Coloured,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
    Dim,
    Bold,
}

impl Style {
    /// Colour on a terminal that can show it, unless `NO_COLOR` is set.
    pub(crate) fn of_stdout() -> Self {
        Self::decide(
            io::stdout().is_terminal(),
            std::env::var_os("NO_COLOR").as_deref(),
            std::env::var_os("TERM").as_deref(),
        )
    }

    fn decide(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        if is_terminal && !refused && term != Some(OsStr::new("dumb")) {
            Self::Coloured
        } else {
            Self::Plain
        }
    }

    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        if self == Self::Plain {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Dim => "2",
            Colour::Bold => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        let is = |text| Some(OsStr::new(text));
        for (is_terminal, no_color, term, style) in [
            (true, None, is("xterm-256color"), Style::Coloured),
            (true, is(""), None, Style::Coloured),
            (true, is("1"), is("xterm"), Style::Plain),
            (true, None, is("dumb"), Style::Plain),
            (false, None, is("xterm"), Style::Plain),
        ] {
            assert_eq!(Style::decide(is_terminal, no_color, term), style);
        }
        assert_eq!(Style::Plain.paint(Colour::Red, "x"), "x");
        assert_eq!(
            Style::Coloured.paint(Colour::Red, "x"),
            "\u{1b}[31mx\u{1b}[0m"
        );
    }
}
