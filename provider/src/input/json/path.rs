//! What is a nested field called?
//!
//! `message.content[].input`: members after a dot, items of a list as `[]`, values of a map as `{}`.

/// The member `name` of what is at `parent`.
pub(in crate::input) fn field(parent: &str, name: &str) -> String {
    format!("{parent}.{name}")
}

/// The items of the list at `parent`.
pub(in crate::input) fn item(parent: &str) -> String {
    format!("{parent}[]")
}

/// The values of the map at `parent`.
pub(in crate::input) fn value(parent: &str) -> String {
    format!("{parent}{{}}")
}
