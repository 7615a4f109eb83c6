//! Made-up conversations of coding agents, the same on every machine.
//!
//! ```text
//! session 4b1e…  2026-05-03 22:41 ─ user ─ assistant ─ tool ─ tool ─ assistant ─ … ─ 2026-05-04 01:10
//! session 90c7…        2026-05-03 23:02 ─ user ─ assistant ─ …
//! ```
//!
//! Sessions overlap, a few are much longer than the rest, some span midnight, and one in eight belongs to no
//! conversation. Messages come out in the order of their time, as a log holds them.

use std::fmt::Write;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Milliseconds since 1970, UTC.
    pub(crate) created_at: i64,
    pub(crate) message_id: String,
    pub(crate) session_id: String,
    pub(crate) conversation_id: Option<String>,
    pub(crate) cwd: &'static str,
    pub(crate) role: &'static str,
    pub(crate) model: Option<&'static str>,
    pub(crate) tool_name: Option<&'static str>,
    pub(crate) content_text: String,
    pub(crate) input_tokens: Option<u32>,
    pub(crate) output_tokens: Option<u32>,
}

/// `count` messages of `sessions` sessions that start within `days` days from `from` (milliseconds since 1970).
pub(crate) fn messages(count: usize, sessions: usize, from: i64, days: u64) -> Vec<Message> {
    let mut random = Random(0x6461_7967_7261_696e);
    let mut messages = Vec::with_capacity(count);
    for (rank, length) in lengths(count, sessions).into_iter().enumerate() {
        // Days in turn, so that none is empty.
        let day = (rank as u64 * 5) % days.max(1);
        let minute = 7 * 60 + random.below(17 * 60);
        let start = from + ((day * 24 * 60 + minute) * 60_000 + random.below(60_000)) as i64;
        session(length, start, &mut random, &mut messages);
    }
    messages.sort_by(|a, b| (a.created_at, &a.message_id).cmp(&(b.created_at, &b.message_id)));
    messages
}

/// How long each session is: the first ones long, most of them short, `count` in all.
fn lengths(count: usize, sessions: usize) -> Vec<usize> {
    // Weights 1/(rank + 8): the longest session has about ten times the messages of the shortest.
    let weight = |rank: usize| 1e3 / (rank as f64 + 8.0);
    let total: f64 = (0..sessions).map(weight).sum();
    let mut done = 0;
    let mut sum = 0.0;
    (0..sessions)
        .map(|rank| {
            sum += weight(rank);
            let upto = if rank + 1 == sessions { count } else { (count as f64 * sum / total) as usize };
            let length = upto - done;
            done = upto;
            length
        })
        .collect()
}

fn session(length: usize, start: i64, random: &mut Random, messages: &mut Vec<Message>) {
    let session_id = random.id();
    let conversation_id = (random.below(8) > 0).then(|| random.id());
    let cwd = random.pick(PROJECTS);
    let model = random.pick(MODELS);
    let mut created_at = start;
    let mut context = 1_200;
    let mut role = "user";
    for _ in 0..length {
        let mut message = Message {
            created_at,
            message_id: random.id(),
            session_id: session_id.clone(),
            conversation_id: conversation_id.clone(),
            cwd,
            role,
            model: None,
            tool_name: None,
            content_text: String::new(),
            input_tokens: None,
            output_tokens: None,
        };
        match role {
            "user" => message.content_text = random.text(ASKS, 1 + random.clone().below(2)),
            "tool" => {
                message.tool_name = Some(random.pick(TOOLS));
                message.content_text = random.text(OUTPUTS, 2 + random.clone().below(5));
            }
            _ => {
                message.content_text = random.text(ANSWERS, 2 + random.clone().below(4));
                message.model = Some(model);
                message.input_tokens = Some(context);
                message.output_tokens = Some(message.content_text.len() as u32 / 4);
            }
        }
        // A context grows with what was said and is cut when it is full.
        context += message.content_text.len() as u32 / 4;
        if context > 180_000 {
            context = 20_000;
        }
        (role, created_at) = next(role, created_at, random);
        messages.push(message);
    }
}

/// Who speaks next, and when: people take longer than programs.
fn next(role: &str, at: i64, random: &mut Random) -> (&'static str, i64) {
    let (role, least, spread) = match role {
        "user" => ("assistant", 900, 6_000),
        "tool" => ("assistant", 700, 5_000),
        _ if random.below(4) > 0 => ("tool", 80, 3_000),
        _ => ("user", 15_000, 150_000),
    };
    (role, at + (least + random.below(spread)) as i64)
}

/// Numbers that look random and are the same every time (SplitMix64, Steele, Lea and Flood 2014).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `limit`; 0 where there is none.
    fn below(&mut self, limit: u64) -> u64 {
        self.next().checked_rem(limit).unwrap_or(0)
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        let place = self.below(from.len() as u64) as usize;
        from.get(place).copied().unwrap_or_default()
    }

    /// 128 random bits in the form of a UUID.
    fn id(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )
    }

    /// Sentences with their gaps filled in.
    fn text(&mut self, sentences: &[&'static str], count: u64) -> String {
        let mut text = String::new();
        for place in 0..count {
            if place > 0 {
                text.push(' ');
            }
            self.fill(sentences, &mut text);
        }
        text
    }

    fn fill(&mut self, sentences: &[&'static str], text: &mut String) {
        let mut rest = self.pick(sentences);
        while let Some((plain, gap)) = rest.split_once('{') {
            text.push_str(plain);
            let (kind, after) = gap.split_once('}').unwrap_or((gap, ""));
            match kind {
                "file" => text.push_str(self.pick(FILES)),
                "thing" => text.push_str(self.pick(THINGS)),
                "when" => text.push_str(self.pick(WHENS)),
                _ => {
                    let _ = write!(text, "{}", 2 + self.below(400));
                }
            }
            rest = after;
        }
        text.push_str(rest);
    }
}

const PROJECTS: &[&str] = &[
    "/home/ada/ledger",
    "/home/ada/ledger/web",
    "/home/grace/harbor",
    "/home/grace/notes",
    "/home/lin/telemetry",
    "/srv/build/atlas",
];

const MODELS: &[&str] = &["heron-2-large", "heron-2-large", "heron-2-small", "kestrel-1"];

const TOOLS: &[&str] = &["shell", "shell", "read_file", "edit_file", "search"];

const FILES: &[&str] = &[
    "src/parser.rs",
    "src/session/store.rs",
    "lib/queue.py",
    "web/cart.tsx",
    "tests/retry.rs",
    "migrations/0042_accounts.sql",
    "config/staging.yaml",
    "docs/protocol.md",
];

const THINGS: &[&str] = &[
    "the retry loop",
    "the invoice total",
    "the login form",
    "the cache key",
    "the date parser",
    "the upload handler",
    "the connection pool",
    "the nightly job",
    "the search index",
];

const WHENS: &[&str] = &[
    "the clock is set back an hour",
    "two requests arrive at once",
    "the list is empty",
    "a name has an umlaut",
    "the disk is full",
    "the server restarts in between",
    "there are more than a thousand rows",
];

const ASKS: &[&str] = &[
    "Why does {thing} fail when {when}?",
    "Please write a test for {thing}; it broke again when {when}.",
    "{thing} in {file} has become slow, it takes {number} ms now. Find out why.",
    "Rename {thing} in {file} and everything that uses it.",
    "Can we drop {file}? I think nothing needs it since {thing} moved.",
    "Explain how {thing} and {thing} work together.",
    "That is not what I meant: leave {file} alone and change {thing}.",
];

const ANSWERS: &[&str] = &[
    "I'll start with {file}, where {thing} is built.",
    "The cause is on line {number} of {file}: {thing} is read before it is checked, which goes wrong when {when}.",
    "I changed {file} so that {thing} is computed once, and {number} tests pass.",
    "There are {number} places that touch {thing}; only the one in {file} matters when {when}.",
    "Before I change anything I want to see the failure, so I'll run the tests.",
    "One thing to decide: {thing} could also live in {file}, which would keep both sides apart.",
    "It still fails when {when}, but for another reason now.",
    "Done. The new test fails without the change and passes with it.",
];

const OUTPUTS: &[&str] = &[
    "{file}:{number}: error: unexpected end of input\n",
    "test result: ok. {number} passed; 0 failed\n",
    "{file}: {number} lines, last changed {number} days ago\n",
    "warning: {thing} is never used\n",
    "-    return total / {number}\n+    return total\n",
    "{number} matches in {file}\n",
    "thread 'worker-{number}' stopped when {when}\n",
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const DAY: i64 = 86_400_000;

    fn some() -> Vec<Message> {
        messages(20_000, 100, 0, 14)
    }

    #[test]
    fn the_same_every_time() {
        assert_eq!(some(), some());
        assert_eq!(some().len(), 20_000);
    }

    #[test]
    fn sessions_look_like_sessions() {
        let messages = some();
        assert!(messages.is_sorted_by_key(|message| message.created_at));
        let ids: BTreeSet<_> = messages.iter().map(|message| &message.message_id).collect();
        assert_eq!(ids.len(), messages.len());

        let mut sessions: BTreeMap<&str, Vec<&Message>> = BTreeMap::new();
        for message in &messages {
            sessions.entry(&message.session_id).or_default().push(message);
        }
        assert_eq!(sessions.len(), 100);
        let longest = sessions.values().map(Vec::len).max().unwrap();
        let shortest = sessions.values().map(Vec::len).min().unwrap();
        assert!(longest > 5 * shortest, "{shortest}..{longest}");
        assert!(sessions.values().any(|session| session.first().unwrap().conversation_id.is_none()));
        let day = |message: &Message| message.created_at.div_euclid(DAY);
        assert!(sessions.values().any(|session| day(session.first().unwrap()) != day(session.last().unwrap())));
        let days: BTreeSet<_> = messages.iter().map(day).collect();
        assert!((0..14).all(|day| days.contains(&day)), "{days:?}");
    }

    #[test]
    fn every_gap_is_filled() {
        for message in some() {
            let text = &message.content_text;
            assert!(!text.is_empty() && !text.contains(['{', '}']), "{text}");
        }
    }
}
