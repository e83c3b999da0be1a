//! Who may do what in an etcd: a user without a password for each tenant, and a role that reaches its keys.

use butler_proto::etcd::auth_client::AuthClient;
use butler_proto::etcd::permission::Type;
use butler_proto::etcd::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleDeleteRequest, AuthRoleGetRequest,
    AuthRoleGrantPermissionRequest, AuthRoleListRequest, AuthRoleRevokePermissionRequest,
    AuthUserAddRequest, AuthUserDeleteRequest, AuthUserGetRequest, AuthUserGrantRoleRequest,
    AuthUserListRequest, AuthUserRevokeRoleRequest, Permission, UserAddOptions,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tonic::Status;

use crate::error::Error;
use crate::etcd::session::Session;
use crate::key_range::KeyRange;

/// The role and the user to whom etcd refuses nothing.
pub(super) const ROOT: &str = "root";

/// Users or roles that are asked for at a time.
const ASKED_AT_ONCE: usize = 16;

/// etcd's own words for what is there already or not there: there is nothing else to tell these refusals apart by.
const ROLE_NOT_FOUND: &str = "etcdserver: role name not found";
const ROLE_EXISTS: &str = "etcdserver: role name already exists";
const USER_NOT_FOUND: &str = "etcdserver: user name not found";
const USER_EXISTS: &str = "etcdserver: user name already exists";
const ROLE_NOT_GRANTED: &str = "etcdserver: role is not granted to the user";
const PERMISSION_NOT_GRANTED: &str = "etcdserver: permission is not granted to the role";

/// The permission to do this with all keys of a range.
pub(super) fn permission(kind: Type, range: &KeyRange) -> Permission {
    Permission {
        perm_type: kind.into(),
        key: range.start().to_vec(),
        range_end: range.end().to_vec(),
    }
}

/// Whether a permission is for some key of a range.
pub(super) fn reaches(permission: &Permission, range: &KeyRange) -> bool {
    let first = permission.key.as_slice();
    match permission.range_end.as_slice() {
        [] => range.contains(first),
        // etcd's way to say that there is no end.
        [0] => first < range.end(),
        end => first < range.end() && range.start() < end,
    }
}

/// What a role may do; none if there is no such role.
pub(super) async fn role(session: &Session, name: &str) -> Result<Option<Vec<Permission>>, Error> {
    let found = session
        .try_ask(|channel| async {
            let request = AuthRoleGetRequest {
                role: name.to_owned(),
            };
            AuthClient::new(channel).role_get(request).await
        })
        .await;
    match found {
        Ok(role) => Ok(Some(role.perm)),
        Err(status) if says(&status, ROLE_NOT_FOUND) => Ok(None),
        Err(status) => Err(session.failure(&format!("read the role \"{name}\""), status)),
    }
}

/// All roles with what they may do, but for the one to which nothing is refused.
pub(super) async fn roles(session: &Session) -> Result<Vec<(String, Vec<Permission>)>, Error> {
    let mut names = session
        .ask("list roles", |channel| async {
            AuthClient::new(channel)
                .role_list(AuthRoleListRequest {})
                .await
        })
        .await?
        .roles;
    names.retain(|name| name != ROOT);
    stream::iter(names)
        .map(|name| async move {
            // What has gone meanwhile may do nothing.
            let permissions = role(session, &name).await?.unwrap_or_default();
            Ok((name, permissions))
        })
        .buffered(ASKED_AT_ONCE)
        .try_collect()
        .await
}

/// The roles of a user; none if there is no such user.
pub(super) async fn user(session: &Session, name: &str) -> Result<Option<Vec<String>>, Error> {
    let found = session
        .try_ask(|channel| async {
            let request = AuthUserGetRequest {
                name: name.to_owned(),
            };
            AuthClient::new(channel).user_get(request).await
        })
        .await;
    match found {
        Ok(user) => Ok(Some(user.roles)),
        Err(status) if says(&status, USER_NOT_FOUND) => Ok(None),
        Err(status) => Err(session.failure(&format!("read the user \"{name}\""), status)),
    }
}

/// The users who have a role. etcd has no list of them: every user is asked for.
pub(super) async fn holders(session: &Session, role: &str) -> Result<Vec<String>, Error> {
    let users = session
        .ask("list users", |channel| async {
            AuthClient::new(channel)
                .user_list(AuthUserListRequest {})
                .await
        })
        .await?
        .users;
    stream::iter(users)
        .map(|name| async move {
            // Who has gone meanwhile has no roles.
            let roles = user(session, &name).await?.unwrap_or_default();
            Ok(roles.iter().any(|given| given == role).then_some(name))
        })
        .buffered(ASKED_AT_ONCE)
        .try_filter_map(|holder| async { Ok(holder) })
        .try_collect()
        .await
}

/// Makes a role that may do nothing yet.
pub(super) async fn add_role(session: &Session, name: &str) -> Result<(), Error> {
    let added = session
        .try_ask(|channel| async {
            let request = AuthRoleAddRequest {
                name: name.to_owned(),
            };
            AuthClient::new(channel).role_add(request).await
        })
        .await;
    done(session, added, &[ROLE_EXISTS], || {
        format!("make the role \"{name}\"")
    })
}

/// Makes a user who is known by the common name of a client certificate, and by nothing else.
pub(super) async fn add_user(session: &Session, name: &str) -> Result<(), Error> {
    let added = session
        .try_ask(|channel| async {
            let request = AuthUserAddRequest {
                name: name.to_owned(),
                options: Some(UserAddOptions { no_password: true }),
            };
            AuthClient::new(channel).user_add(request).await
        })
        .await;
    done(session, added, &[USER_EXISTS], || {
        format!("make the user \"{name}\"")
    })
}

/// Lets a role do more.
pub(super) async fn grant_permission(
    session: &Session,
    role: &str,
    permission: &Permission,
) -> Result<(), Error> {
    let granted = session
        .try_ask(|channel| async {
            let request = AuthRoleGrantPermissionRequest {
                name: role.to_owned(),
                perm: Some(permission.clone()),
            };
            AuthClient::new(channel)
                .role_grant_permission(request)
                .await
        })
        .await;
    done(session, granted, &[], || {
        format!("grant keys to the role \"{role}\"")
    })
}

/// Lets a role do less.
pub(super) async fn revoke_permission(
    session: &Session,
    role: &str,
    permission: &Permission,
) -> Result<(), Error> {
    let revoked = session
        .try_ask(|channel| async {
            let request = AuthRoleRevokePermissionRequest {
                role: role.to_owned(),
                key: permission.key.clone(),
                range_end: permission.range_end.clone(),
            };
            AuthClient::new(channel)
                .role_revoke_permission(request)
                .await
        })
        .await;
    done(
        session,
        revoked,
        &[ROLE_NOT_FOUND, PERMISSION_NOT_GRANTED],
        || format!("take keys from the role \"{role}\""),
    )
}

/// Gives a role to a user.
pub(super) async fn grant_role(session: &Session, user: &str, role: &str) -> Result<(), Error> {
    let granted = session
        .try_ask(|channel| async {
            let request = AuthUserGrantRoleRequest {
                user: user.to_owned(),
                role: role.to_owned(),
            };
            AuthClient::new(channel).user_grant_role(request).await
        })
        .await;
    done(session, granted, &[], || {
        format!("give the role \"{role}\" to the user \"{user}\"")
    })
}

/// Takes a role from a user.
pub(super) async fn revoke_role(session: &Session, user: &str, role: &str) -> Result<(), Error> {
    let revoked = session
        .try_ask(|channel| async {
            let request = AuthUserRevokeRoleRequest {
                name: user.to_owned(),
                role: role.to_owned(),
            };
            AuthClient::new(channel).user_revoke_role(request).await
        })
        .await;
    done(
        session,
        revoked,
        &[USER_NOT_FOUND, ROLE_NOT_FOUND, ROLE_NOT_GRANTED],
        || format!("take the role \"{role}\" from the user \"{user}\""),
    )
}

/// Removes a user.
pub(super) async fn delete_user(session: &Session, name: &str) -> Result<(), Error> {
    let deleted = session
        .try_ask(|channel| async {
            let request = AuthUserDeleteRequest {
                name: name.to_owned(),
            };
            AuthClient::new(channel).user_delete(request).await
        })
        .await;
    done(session, deleted, &[USER_NOT_FOUND], || {
        format!("remove the user \"{name}\"")
    })
}

/// Removes a role.
pub(super) async fn delete_role(session: &Session, name: &str) -> Result<(), Error> {
    let deleted = session
        .try_ask(|channel| async {
            let request = AuthRoleDeleteRequest {
                role: name.to_owned(),
            };
            AuthClient::new(channel).role_delete(request).await
        })
        .await;
    done(session, deleted, &[ROLE_NOT_FOUND], || {
        format!("remove the role \"{name}\"")
    })
}

/// From now on, who asks has to be somebody.
pub(super) async fn enable(session: &Session) -> Result<(), Error> {
    let enabled = session
        .try_ask(|channel| async {
            AuthClient::new(channel)
                .auth_enable(AuthEnableRequest {})
                .await
        })
        .await;
    done(session, enabled, &[], || {
        "turn authentication on".to_owned()
    })
}

fn says(status: &Status, words: &str) -> bool {
    status.message() == words
}

/// Well if it was done, or if it did not have to be: etcd then says one of the given words.
fn done<T>(
    session: &Session,
    outcome: Result<T, Status>,
    needless: &[&str],
    action: impl FnOnce() -> String,
) -> Result<(), Error> {
    match outcome {
        Ok(_) => Ok(()),
        Err(status) if needless.iter().any(|words| says(&status, words)) => Ok(()),
        Err(status) => Err(session.failure(&action(), status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_for_one_key_for_many_or_for_all_behind_one_is_understood_as_etcd_does() {
        let range = KeyRange::of(&"shop".parse().unwrap());
        for (key, range_end, expected) in [
            ("/shop/a", "", true),
            ("/shop/", "/shop0", true),
            ("/shop/a/", "/shop/a0", true),
            ("/", "0", true),
            ("/a", "\0", true),
            ("\0", "\0", true),
            ("/shop", "", false),
            ("/shop0", "", false),
            ("/shop0", "\0", false),
            ("/sho/", "/shop/", false),
            ("/shop2/", "/shop20", false),
        ] {
            let permission = Permission {
                key: key.into(),
                range_end: range_end.into(),
                ..Permission::default()
            };
            assert_eq!(reaches(&permission, &range), expected, "{key} {range_end}");
        }
    }
}
