//! The first process of the machines that tests make: the one of the product, and nothing else.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use butler_host::init::{self, InitConfig};

fn main() -> ExitCode {
    match init::run(&InitConfig::default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}
