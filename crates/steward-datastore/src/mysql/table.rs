//! kine's table in a tenant's database. Only ever asked as the tenant: what else is in there, such as a trigger, must not
//! run with Steward's rights.

use mysql_async::{Params, Row, Value};

use crate::error::Error;
use crate::mysql::session::Session;
use crate::mysql::statements;
use crate::store::Copied;

/// Bytes written by one statement: well below what servers take by default.
const WRITE_BYTES: usize = 4 * 1024 * 1024;

/// How many rows kine keeps; 0 if it has no table yet.
pub(super) async fn count(session: &mut Session) -> Result<u64, Error> {
    if !table_exists(session).await? {
        return Ok(0);
    }
    let rows = session
        .rows("count kine's rows", statements::COUNT, ())
        .await?;
    Ok(rows.first().copied().unwrap_or_default())
}

/// Copies all rows, some at a time.
pub(super) async fn copy(from: &mut Session, to: &mut Session) -> Result<Copied, Error> {
    let mut copied = Copied::default();
    if table_exists(from).await? {
        to.run("make kine's table", statements::CREATE_TABLE, (), &[])
            .await?;
        copied.entries = copy_rows(from, to).await?;
    }
    Ok(copied)
}

async fn copy_rows(from: &mut Session, to: &mut Session) -> Result<u64, Error> {
    let (mut last, mut copied) = (Value::UInt(0), 0);
    loop {
        let rows: Vec<Row> = from
            .rows(
                "read kine's rows",
                statements::READ_ROWS,
                Params::Positional(vec![last.clone()]),
            )
            .await?;
        let rows: Vec<Vec<Value>> = rows.into_iter().map(Row::unwrap).collect();
        let Some(number) = rows.last().and_then(|row| row.first()) else {
            return Ok(copied);
        };
        last = number.clone();
        for batch in batches(rows) {
            copied += u64::try_from(batch.len()).unwrap_or_default();
            let statement = statements::write_rows(batch.len());
            let values = Params::Positional(batch.into_iter().flatten().collect());
            to.run("write kine's rows", statement, values, &[]).await?;
        }
    }
}

/// Rows in groups that one statement can carry.
fn batches(rows: Vec<Vec<Value>>) -> Vec<Vec<Vec<Value>>> {
    let size = |row: &Vec<Value>| -> usize {
        row.iter()
            .map(|value| match value {
                Value::Bytes(bytes) => bytes.len(),
                _ => 8,
            })
            .sum()
    };
    let mut batches: Vec<Vec<Vec<Value>>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let length = size(&row);
        match batches.last_mut() {
            Some(batch) if bytes + length <= WRITE_BYTES => {
                bytes += length;
                batch.push(row);
            }
            _ => {
                bytes = length;
                batches.push(vec![row]);
            }
        }
    }
    batches
}

async fn table_exists(session: &mut Session) -> Result<bool, Error> {
    let found: Vec<u64> = session
        .rows("look for kine's table", statements::TABLE_EXISTS, ())
        .await?;
    Ok(found.first().is_some_and(|tables| *tables > 0))
}
