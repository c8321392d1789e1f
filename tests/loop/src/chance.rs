//! Seeded choices: the same seed gives the same test.

/// A small generator (xorshift64*), good enough to choose moments and victims.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// From `BOARD_TEST_SEED`, else 1; printed by whoever fails.
    pub fn from_env() -> Chance {
        let seed = std::env::var("BOARD_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end.max(1)
    }
}
