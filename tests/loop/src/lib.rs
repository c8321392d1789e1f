//! Helpers of the loop tests.
