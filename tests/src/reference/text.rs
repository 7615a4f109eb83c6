//! Sentences about code, as people and models write them: words by rank, a line of code now and then.

use super::Rng;

const WORDS: &str = "the to and a of in is it that for this with be on we you as not are can if file but have from code I \
test function an use so now error should will line when add run let which value type then fix there name first all \
change data new return call one check only see make need read at by do what write set these tests like also query \
after path into list just string table output still same look how each field update failing works here while without \
build other default before column null where result version because index commit request response handle parse user \
example module case partition schema between empty missing already instead time object key start cache message method \
config option server client number state review since every batch memory branch issue expected pattern session model \
directory argument timeout retry thread pipeline snapshot stream filter parser token buffer deploy database migration \
environment variable dependency package compile release endpoint header payload validate serialize refactor iterate \
document explain approach suggest implement consider probably currently actually perhaps however therefore whether";

const CODE: [&str; 8] = [
    "for (const row of rows) { total += row.tokens ?? 0; }",
    "let kept = files.iter().filter(|f| f.day >= from && f.day < to).count();",
    "if err != nil { return fmt.Errorf(\"load %s: %w\", path, err) }",
    "SELECT session_id, count(*) FROM messages GROUP BY session_id ORDER BY 2 DESC LIMIT 20;",
    "def parse(line: str) -> dict: return json.loads(line)",
    "git diff --stat HEAD~1 | tail -n 1",
    "assert_eq!(report.files.kept(), 3, \"{report:?}\");",
    "export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));",
];

/// Writes prose of about `length` bytes.
pub(super) fn prose(rng: &mut Rng, length: usize, out: &mut String) {
    let words: &[&str] = words();
    let end = out.len() + length;
    let mut sentence = 0;
    while out.len() < end {
        // The lower of two draws: common words come first in the list.
        let rank = (rng.unit() * rng.unit() * words.len() as f64) as usize;
        let word = words[rank.min(words.len() - 1)];
        if sentence == 0 {
            let mut letters = word.chars();
            out.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            out.push_str(letters.as_str());
        } else {
            out.push(' ');
            out.push_str(word);
        }
        sentence += 1;
        match rng.below(40) {
            0 => {
                out.push_str(".\n\n```\n");
                out.push_str(CODE[rng.below(CODE.len() as u64) as usize]);
                out.push_str("\n```\n\n");
                sentence = 0;
            }
            1..=3 => {
                out.push_str(". ");
                sentence = 0;
            }
            4 => out.push_str(&format!(" `{:x}`", rng.below(1 << 40))),
            5 => out.push(','),
            6 => out.push_str(&format!(" {}", rng.below(5_000))),
            _ => {}
        }
    }
}

fn words() -> &'static [&'static str] {
    static LIST: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
    LIST.get_or_init(|| WORDS.split_whitespace().collect())
}
