use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// A file of lines that is only ever appended to, and in which every line that was written stays
/// whole, whatever becomes of the ones around it.
pub(crate) struct Record<F> {
    file: F,
    /// It ends amid a line, which the next one must not continue.
    is_torn: bool,
}

/// What a record needs of its file.
pub(crate) trait Tail: Write {
    /// How long it is.
    fn length(&self) -> io::Result<u64>;

    /// Cuts it back.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Tail for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

impl Record<File> {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let is_torn = file.metadata()?.is_file() && ends_amid_a_line(path);
        Ok(Self { file, is_torn })
    }
}

impl<F: Tail> Record<F> {
    /// Appends one line.
    ///
    /// # Errors
    ///
    /// When it is not there, or not whole. What was written of it is taken back where that can be
    /// done, and else left as a line of its own.
    pub(crate) fn append(&mut self, line: &str) -> io::Result<()> {
        let start = if self.is_torn { "\n" } else { "" };
        // One write, so that a reader never sees half a line while the disk has room.
        let bytes = format!("{start}{line}\n").into_bytes();
        let before = self.file.length();
        let (written, outcome) = write_all(&mut self.file, &bytes);
        if outcome.is_ok() {
            self.is_torn = false;
        } else if written > 0 {
            let is_restored = before.is_ok_and(|before| self.take_back(before, written));
            self.is_torn |= !is_restored;
        }
        outcome
    }

    /// Takes back what was written last, unless somebody else has written since.
    fn take_back(&mut self, before: u64, written: usize) -> bool {
        let is_ours = self
            .file
            .length()
            .is_ok_and(|length| length == before + written as u64);
        is_ours && self.file.cut(before).is_ok()
    }
}

/// Tells also how much was written before it failed.
fn write_all(file: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Whether the process that wrote last was killed amid a line. A file that cannot be read may be.
fn ends_amid_a_line(path: &Path) -> bool {
    let last = || {
        let mut file = File::open(path)?;
        if file.seek(SeekFrom::End(0))? == 0 {
            return Ok(b'\n');
        }
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        io::Result::Ok(last[0])
    };
    !matches!(last(), Ok(b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes more.
    #[derive(Default)]
    struct Disk {
        content: Vec<u8>,
        room: usize,
        /// Cutting back fails as well, as for a pipe.
        cannot_cut: bool,
        /// What another process appends when this one finds no room.
        others: &'static str,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                self.content.extend_from_slice(self.others.as_bytes());
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            self.content.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Tail for Disk {
        fn length(&self) -> io::Result<u64> {
            Ok(self.content.len() as u64)
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            if self.cannot_cut {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            self.content.truncate(length.try_into().unwrap());
            Ok(())
        }
    }

    fn after_a_full_disk(disk: Disk) -> String {
        let mut record = Record {
            file: disk,
            is_torn: false,
        };
        record.append("first").unwrap();
        assert!(record.append("second").is_err());
        record.file.room = 100;
        record.append("second").unwrap();
        record.append("third").unwrap();
        String::from_utf8(record.file.content).unwrap()
    }

    #[test]
    fn half_a_line_on_a_full_disk_is_taken_back() {
        let disk = Disk {
            room: 9,
            ..Disk::default()
        };
        assert_eq!(after_a_full_disk(disk), "first\nsecond\nthird\n");
    }

    #[test]
    fn half_a_line_that_cannot_be_taken_back_is_a_line_of_its_own() {
        let disk = Disk {
            room: 9,
            cannot_cut: true,
            ..Disk::default()
        };
        assert_eq!(after_a_full_disk(disk), "first\nsec\nsecond\nthird\n");
    }

    #[test]
    fn what_another_process_appended_is_not_taken_back() {
        let disk = Disk {
            room: 9,
            others: "\nother\n",
            ..Disk::default()
        };
        let content = after_a_full_disk(disk);
        for whole in ["first", "other", "second", "third"] {
            let count = content.lines().filter(|line| *line == whole).count();
            assert_eq!(count, 1, "{whole}: {content}");
        }
    }

    #[test]
    fn a_disk_without_room_for_a_byte_leaves_the_file_as_it_is() {
        let disk = Disk {
            room: 6,
            ..Disk::default()
        };
        assert_eq!(after_a_full_disk(disk), "first\nsecond\nthird\n");
    }

    #[test]
    fn a_file_that_ends_amid_a_line_goes_on_with_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        for (name, before, after) in [
            ("half", "whole\nha", "whole\nha\nnext\nlast\n"),
            ("whole", "whole\n", "whole\nnext\nlast\n"),
            ("empty", "", "next\nlast\n"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, before).unwrap();
            let mut record = Record::open(&path).unwrap();
            record.append("next").unwrap();
            record.append("last").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }
}
