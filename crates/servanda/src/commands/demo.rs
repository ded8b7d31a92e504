use crate::{cli::DemoArgs, failure::Failure, screen::Screen};

pub(crate) async fn run(_args: &DemoArgs, _screen: Screen) -> Result<(), Failure> { Ok(()) }
