//! The clock and fresh ids, which the model gets handed in a [`Stamp`].

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::model::board::Stamp;
use crate::model::time::Timestamp;

/// Now, by the wall clock.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A stamp for something that happens now: fresh ids, no idempotency key, parking allowed.
pub fn stamp(actor: impl Into<String>) -> Stamp {
    Stamp {
        now: now(),
        actor: actor.into(),
        request: None,
        transition: Uuid::new_v4(),
        job: Uuid::now_v7(),
        park: true,
    }
}
