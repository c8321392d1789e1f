//! The examples of `docs/identity.md`, so that what people copy is what is tested.

/// The page.
const PAGE: &str = include_str!("../../../docs/identity.md");

/// The one example with this name behind its fence.
pub fn example(language: &str) -> &'static str {
    let fence = format!("```{language}\n");
    let mut found = PAGE.split(&fence).skip(1);
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "docs/identity.md has two examples {language}");
    let Some((text, _)) = first.and_then(|rest| rest.split_once("\n```")) else {
        panic!("docs/identity.md has no example {language}");
    };
    text
}

/// The example with other values; each must stand in it.
pub fn example_with(language: &str, values: &[(&str, &str)]) -> String {
    let mut text = example(language).to_owned();
    for (old, new) in values {
        assert!(text.contains(old), "docs/identity.md, example {language}: no `{old}`");
        text = text.replace(old, new);
    }
    text
}
