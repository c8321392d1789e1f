//! The headers that every answer carries (web.md, 5.3).
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// What pages may load and do: only what the board itself serves.
pub(crate) const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types board";

/// For raw text that somebody else wrote: opened in a tab it can do nothing.
pub(crate) const CSP_SANDBOX: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

const PERMISSIONS: &str = "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), \
     display-capture=(), encrypted-media=(), fullscreen=(), gamepad=(), geolocation=(), gyroscope=(), hid=(), \
     idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), payment=(), \
     picture-in-picture=(), publickey-credentials-get=(), screen-wake-lock=(), serial=(), storage-access=(), \
     usb=(), xr-spatial-tracking=()";

/// Adds them; a handler that set one of `Content-Security-Policy` and `Cache-Control` meant it.
pub(crate) fn add(headers: &mut HeaderMap) {
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // no-referrer would make our own forms send `Origin: null`.
    set(header::REFERRER_POLICY, "same-origin");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    set(HeaderName::from_static("permissions-policy"), PERMISSIONS);
    set(HeaderName::from_static("board-api"), "1");
    for (name, value) in [(header::CONTENT_SECURITY_POLICY, CSP), (header::CACHE_CONTROL, "no-store")] {
        if !headers.contains_key(&name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}
