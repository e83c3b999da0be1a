//! Ends what a tenant's account is at.

use std::time::Duration;

use crate::error::Error;
use crate::mysql::session::{NO_SUCH_THREAD, Session};
use crate::mysql::statements;
use crate::mysql::survey::Survey;
use crate::store::Tenant;

/// How often it is asked whether connections have ended.
const END_PERIOD: Duration = Duration::from_millis(50);

/// The tenant's account, if it is the tenant's alone, can no longer log in, and is logged out.
pub(super) async fn lock(
    session: &mut Session,
    tenant: &Tenant,
    survey: &Survey,
) -> Result<(), Error> {
    if !survey.account_is_ours(tenant) {
        return Ok(());
    }
    let statement = statements::lock_user(&tenant.user)?;
    session
        .run(
            format!("lock the account \"{}\"", tenant.user),
            statement,
            (),
            &[],
        )
        .await?;
    end_sessions(session, tenant).await
}

/// Ends the connections of the tenant's account, and waits until they have: what they were at is over then.
pub(super) async fn end_sessions(session: &mut Session, tenant: &Tenant) -> Result<(), Error> {
    let ended = sessions(session, tenant).await?;
    for connection in &ended {
        session
            .run(
                "end the tenant's connections",
                format!("KILL CONNECTION {connection}"),
                (),
                &[NO_SUCH_THREAD],
            )
            .await?;
    }
    // The call as a whole has a deadline.
    loop {
        let left = sessions(session, tenant).await?;
        if !left.iter().any(|connection| ended.contains(connection)) {
            return Ok(());
        }
        tokio::time::sleep(END_PERIOD).await;
    }
}

async fn sessions(session: &mut Session, tenant: &Tenant) -> Result<Vec<u64>, Error> {
    session
        .rows(
            "list the tenant's connections",
            statements::SESSIONS,
            (tenant.user.as_str(),),
        )
        .await
}
