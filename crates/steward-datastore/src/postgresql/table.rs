//! kine's table in a tenant's database. Only ever asked as the tenant: what else is in there, such as a trigger, must not
//! run with Steward's rights.

use futures::{SinkExt as _, StreamExt as _, pin_mut};

use crate::error::Error;
use crate::postgresql::session::{Session, cell, failure};
use crate::postgresql::statements;
use crate::store::Copied;

async fn table_exists(session: &Session) -> Result<bool, Error> {
    let found = session
        .row("look for kine's table", statements::TABLE_EXISTS, &[])
        .await?;
    found.as_ref().map_or(Ok(false), |row| cell(row, 0))
}

/// How many rows kine keeps; 0 if it has no table yet.
pub(super) async fn count(session: &Session) -> Result<u64, Error> {
    if !table_exists(session).await? {
        return Ok(0);
    }
    let found = session
        .row("count kine's rows", statements::COUNT, &[])
        .await?;
    let rows: i64 = found.as_ref().map_or(Ok(0), |row| cell(row, 0))?;
    Ok(u64::try_from(rows).unwrap_or_default())
}

/// Whether nobody may change a row. Without a table, somebody may make one.
pub(super) async fn is_frozen(session: &Session) -> Result<bool, Error> {
    if !table_exists(session).await? {
        return Ok(false);
    }
    let found = session
        .row(
            "read who may write kine's table",
            statements::MAY_WRITE,
            &[],
        )
        .await?;
    let may_write: bool = found.as_ref().map_or(Ok(true), |row| cell(row, 0))?;
    Ok(!may_write)
}

/// Nobody may change a row any more. A table that is not there is made: kine would not look at rights before it did so.
pub(super) async fn freeze(session: &Session) -> Result<(), Error> {
    if !table_exists(session).await? {
        session
            .run("make kine's table", statements::CREATE_TABLE, &[])
            .await?;
    } else if is_frozen(session).await? {
        // Whoever may not write may not take the lock either.
        return Ok(());
    }
    session
        .run("close kine's table to writes", statements::FREEZE, &[])
        .await
}

/// Rows may be changed again.
pub(super) async fn thaw(session: &Session) -> Result<(), Error> {
    if !is_frozen(session).await? {
        return Ok(());
    }
    session
        .run("open kine's table to writes", statements::THAW, &[])
        .await
}

/// Copies all rows, through this process but never all of them in it.
pub(super) async fn copy(from: &Session, to: &Session) -> Result<Copied, Error> {
    if !table_exists(from).await? {
        return Ok(Copied::default());
    }
    to.run("make kine's table", statements::CREATE_TABLE, &[])
        .await?;
    let rows = from
        .client()
        .copy_out(statements::COPY_OUT)
        .await
        .map_err(|error| failure("read kine's table", error))?;
    let sink = to
        .client()
        .copy_in(statements::COPY_IN)
        .await
        .map_err(|error| failure("write kine's table", error))?;
    pin_mut!(rows, sink);
    while let Some(chunk) = rows.next().await {
        let chunk = chunk.map_err(|error| failure("read kine's table", error))?;
        sink.send(chunk)
            .await
            .map_err(|error| failure("write kine's table", error))?;
    }
    let entries = sink
        .finish()
        .await
        .map_err(|error| failure("write kine's table", error))?;
    to.ask(
        "set the next row's number",
        statements::CONTINUE_NUMBERS,
        &[],
    )
    .await?;
    Ok(Copied {
        entries,
        ..Copied::default()
    })
}
