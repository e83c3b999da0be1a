//! Helm and Butler's charts as an operator meets them: the real helm, a real API server.

#[cfg(test)]
mod charts;
#[cfg(test)]
mod data_store;
#[cfg(test)]
mod documentation;
#[cfg(test)]
mod environment;
#[cfg(test)]
mod installation;
#[cfg(test)]
mod interruption;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod support;
