//! The page for people: one file of HTML, CSS and JavaScript, which loads nothing from elsewhere and
//! cannot change anything on the server.
//!
//! A header limits what the browser may do with the page. It may run the only script and apply the only
//! style sheet in the file, which the header identifies by their hashes, show images from `data:`
//! addresses, and request data from this server. No name of a client or key can inject a script into the
//! page.

use super::http::HttpContent;
use base64ct::{Base64, Encoding};
use sluice_acl::Digest;

/// The page's source, with its script and style sheet.
const PAGE: &str = include_str!("page/page.html");
/// The page as a body.
const BODY: &[&[u8]] = &[PAGE.as_bytes()];

/// The HTTP headers of the page, computed once.
pub(super) struct PageFile {
    headers: String,
}

impl PageFile {
    /// Builds the headers. Cost: computing hashes of the script and the style sheet.
    pub fn new() -> PageFile {
        let hash = |tag: &str| {
            let digest = Digest::of(inside(PAGE, tag).as_bytes());
            format!("'sha256-{}'", Base64::encode_string(digest.bytes()))
        };
        let headers = format!(
            "Content-Security-Policy: default-src 'none'; script-src {}; style-src {}; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
             Referrer-Policy: no-referrer\r\n",
            hash("script"),
            hash("style")
        );
        PageFile { headers }
    }

    /// The page as the content of a reply.
    pub fn content(&self) -> HttpContent<'_> {
        HttpContent { kind: "text/html; charset=utf-8", headers: &self.headers, body: BODY }
    }
}

/// The text between a tag and its end tag; empty if the page lacks the tag.
fn inside<'p>(page: &'p str, tag: &str) -> &'p str {
    let (begins, ends) = (format!("<{tag}>"), format!("</{tag}>"));
    let behind = page.split_once(&begins).map_or("", |(_, behind)| behind);
    behind.split_once(&ends).map_or("", |(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum size of the page in bytes.
    const PAGE_BYTES_MAX: usize = 60 * 1024;

    #[test]
    fn the_page_is_one_file_without_anything_from_elsewhere() {
        assert!(PAGE.len() <= PAGE_BYTES_MAX, "{} bytes", PAGE.len());
        for tag in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{tag}")).count(), 1, "{tag}");
            assert!(!inside(PAGE, tag).is_empty());
        }
        let names = PAGE.replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "//cdn",
            " src=",
            "@import",
            "url(",
            "innerHTML",
            "eval(",
            " style=",
            " onclick=",
        ] {
            assert!(!names.contains(word), "{word}");
        }
    }

    #[test]
    fn a_browser_runs_the_script_of_the_page_and_no_other() {
        let page = PageFile::new();
        let headers = page.content().headers;
        assert!(headers.contains("default-src 'none'; script-src 'sha256-"), "{headers}");
        assert!(!headers.contains("unsafe"), "{headers}");
        assert_eq!(
            headers.matches("=' style-src").count() + headers.matches("='; style-src").count(),
            1,
            "{headers}"
        );
    }
}
