//! `boardctl`: the operator's tool. It talks to a running board and checks what it
//! is given.
mod cli;
mod commands;
mod control;
mod output;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    output::report(commands::run(&cli), cli.language())
}
