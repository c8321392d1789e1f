//! Prints `docs/options.md`.

fn main() -> anyhow::Result<()> {
    print!("{}", nix_tests::reference::page()?);
    Ok(())
}
