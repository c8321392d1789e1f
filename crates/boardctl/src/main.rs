//! `boardctl`: the operator's tool. It talks to a running board, looks after its files, and runs the whole
//! system in the foreground for trying out and for development.
mod cli;
mod commands;
mod control;
mod demo;
mod dev;
mod output;
mod when;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    output::report(commands::run(&cli), cli.language())
}
