//! Where is a file now that its table was moved?

use std::borrow::Cow;

/// Reads files under `to` although the metadata names `from`.
#[derive(Clone, Debug)]
pub struct Relocation {
    pub from: String,
    pub to: String,
}

impl Relocation {
    /// The location after relocation: `from` is replaced only as a whole directory prefix.
    pub fn apply<'a>(&self, location: &'a str) -> Cow<'a, str> {
        match location.strip_prefix(self.from.trim_end_matches('/')) {
            Some(rest) if rest.starts_with('/') => Cow::Owned(format!("{}{rest}", self.to.trim_end_matches('/'))),
            _ => Cow::Borrowed(location),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_directories_only() {
        let relocation = Relocation { from: "s3://old/t".into(), to: "file:///new/t/".into() };
        assert_eq!(relocation.apply("s3://old/t/data/a.parquet"), "file:///new/t/data/a.parquet");
        assert_eq!(relocation.apply("s3://old/t2/data/a.parquet"), "s3://old/t2/data/a.parquet");
        assert_eq!(relocation.apply("s3://old/t"), "s3://old/t");
    }
}
