//! The control socket's identity: who holds the other end, as the kernel says (web.md, 5.5).
use super::{Auth, AuthSource, Identity, Role, forbidden, user_name};
use crate::reply::Problem;

impl Auth {
    /// Root is the operator „root"; anybody else is looked up by the user's name.
    ///
    /// # Errors
    /// 403 for a user on no list, and for the service's own user where agents share it.
    pub(crate) fn identify_control(&self, uid: u32) -> Result<Identity, Problem> {
        let identity = |name: String, role| Identity { name, role, source: AuthSource::Control };
        if uid == 0 {
            return Ok(identity("root".to_owned(), Role::Operator));
        }
        let name = user_name(uid);
        if uid == self.own_uid {
            return if self.own_uid_allowed {
                Ok(identity(name, Role::Operator))
            } else {
                Err(forbidden(&name).audited())
            };
        }
        match self.role(&name, &[]) {
            Some(role) => Ok(identity(name, role)),
            None => Err(forbidden(&name).audited()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::auth;
    use super::*;
    use board_core::edge::settings::AuthMode;

    #[test]
    fn root_is_an_operator_and_the_services_own_user_only_where_no_agent_shares_it() {
        let mut auth = auth(AuthMode::Proxy);
        assert_eq!(auth.identify_control(0).unwrap().name, "root");
        assert_eq!(auth.identify_control(auth.own_uid).unwrap_err().status, 403);
        auth.own_uid_allowed = true;
        assert_eq!(auth.identify_control(auth.own_uid).unwrap().role, Role::Operator);
        assert_eq!(auth.identify_control(auth.own_uid + 1).unwrap_err().status, 403);
    }
}
