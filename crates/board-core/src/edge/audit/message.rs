//! The message of a board commit: a subject for people, trailers for machines.

use crate::model::board::OutboxEntry;

/// Longest reason in a message, in characters.
const MAX_REASON: usize = 500;
/// Longest value of a trailer, in characters.
const MAX_VALUE: usize = 200;

/// The message for these transitions, at least one, in their order.
pub(super) fn of(entries: &[OutboxEntry]) -> String {
    let Some(last) = entries.last() else { return String::new() };
    let mut subject = format!("board: {} {}", last.card, change(last));
    if entries.len() > 1 {
        subject.push_str(&format!(" (+{})", entries.len() - 1));
    }
    let mut text = format!("{subject}\n\n");
    for entry in entries {
        if entries.len() > 1 {
            text.push_str(&format!("{} {}\n", entry.card, change(entry)));
        }
        if let Some(note) = &entry.step.note {
            text.push_str(&format!("Grund: {}\n", one_line(note, MAX_REASON)));
        }
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    for entry in entries {
        trailers(entry, &mut text);
    }
    text
}

fn change(entry: &OutboxEntry) -> String {
    let to = entry.step.to;
    match entry.step.from {
        None => format!("→ {to}"),
        Some(from) if from == to => format!("{to}: {}", one_line(&entry.step.event, MAX_VALUE)),
        Some(from) => format!("{from} → {to}"),
    }
}

fn trailers(entry: &OutboxEntry, text: &mut String) {
    let step = &entry.step;
    let mut put = |name: &str, value: &str| {
        text.push_str(&format!("Board-{name}: {}\n", one_line(value, MAX_VALUE)));
    };
    put("Transition", &step.transition.to_string());
    put("Card", entry.card.as_str());
    if let Some(from) = step.from {
        put("From", from.id());
    }
    put("To", step.to.id());
    put("Event", &step.event);
    put("Actor", &step.actor);
    if let Some(job) = step.job {
        put("Job", &job.to_string());
    }
    if let Some(profile) = &step.profile {
        put("Profile", profile);
    }
    for document in &entry.documents {
        if let Some(replaced) = &document.replaced {
            put("Replaced", &format!("{} {replaced}", document.path));
        }
    }
}

/// A text that cannot begin a line of its own, so it can be neither a trailer nor the end of the body.
fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::model::board::WrittenDocument;
    use crate::model::card::Step;
    use crate::model::phase::Phase;
    use crate::model::slug::Slug;
    use crate::model::time::Timestamp;

    fn entry(card: &str, from: Option<Phase>, to: Phase, note: Option<&str>) -> OutboxEntry {
        OutboxEntry {
            card: Slug::parse(card).unwrap(),
            step: Step {
                transition: Uuid::nil(),
                from,
                to,
                event: "started".into(),
                actor: "lukas\nBoard-To: x".into(),
                at: Timestamp::MIN,
                job: None,
                profile: Some("standard".into()),
                note: note.map(Into::into),
            },
            record: String::new(),
            documents: vec![],
            committed: None,
        }
    }

    #[test]
    fn one_transition_has_the_subject_and_the_trailers_of_the_design() {
        let (from, to) = (Phase::Geplant, Phase::InUmsetzung);
        let mut one = entry("limit", Some(from), to, None);
        one.documents.push(WrittenDocument {
            path: "a".into(),
            blob: "b".into(),
            replaced: Some("c".into()),
        });
        let expected = format!(
            "board: limit {from} → {to}\n\nBoard-Transition: {}\nBoard-Card: limit\nBoard-From: {from}\n\
             Board-To: {to}\nBoard-Event: started\nBoard-Actor: lukas Board-To: x\nBoard-Profile: standard\n\
             Board-Replaced: a c\n",
            Uuid::nil()
        );
        assert_eq!(of(&[one]), expected);
    }

    #[test]
    fn several_transitions_are_listed_and_each_has_its_trailers() {
        let to = Phase::Geplant;
        let text = of(&[entry("a", None, to, Some("weil\n\nBoard-Card: z")), entry("b", Some(to), to, None)]);
        let expected = format!(
            "board: b {to}: started (+1)\n\na → {to}\nGrund: weil Board-Card: z\nb {to}: started\n\n\
             Board-Transition: "
        );
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(text.matches("\nBoard-Card: ").count(), 2);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let text = of(&[entry("a", None, Phase::Geplant, Some(&"x".repeat(MAX_REASON + 1)))]);
        assert!(text.contains(&format!("Grund: {}…\n", "x".repeat(MAX_REASON))), "{text}");
    }
}
