//! SET ROLE and SET SESSION AUTHORIZATION: the role in force follows two settings, and those follow the transaction.

use super::SessionContext;
use crate::settings::{SessionSettings, SettingScope};
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::roles::Roles;
use std::rc::Rc;

/// Who is at work.
pub struct Identity {
    pub login_role: Oid,
    pub login_name: Rc<str>,
    /// SET SESSION AUTHORIZATION's; the one who has logged in else.
    pub session_user: Rc<str>,
    /// The role in force (SET ROLE).
    pub current_role: Oid,
    pub role_name: Rc<str>,
    /// What somebody else's code is kept from while it runs as its owner.
    pub restriction: Restriction,
}

/// What code may do that runs as another role than the session's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Restriction {
    #[default]
    None,
    /// A SECURITY DEFINER function: it may not become yet another role.
    LocalRole,
    /// What a command does for the owner of a table (functions of an index, the query of a materialized view): it may
    /// leave nothing behind that runs as somebody else later.
    Operation,
}

/// Who was at work before somebody else was, for [`SessionContext::resume_role`].
pub struct SuspendedRole {
    role: (Oid, Rc<str>),
    restriction: Restriction,
}

impl Identity {
    pub fn of_login(role: Oid, name: &str) -> Identity {
        let name: Rc<str> = name.into();
        Identity {
            login_role: role,
            login_name: name.clone(),
            session_user: name.clone(),
            current_role: role,
            role_name: name,
            restriction: Restriction::None,
        }
    }
}

fn missing_role(name: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("role \"{name}\" does not exist"))
}

/// Who the settings say is at work: the session's user, and the role unless it is none.
#[derive(PartialEq, Eq)]
struct Named {
    user: Option<String>,
    role: Option<String>,
}

impl SessionContext {
    fn named(&self) -> Named {
        let value = |name: &str| self.settings.get(name).filter(|v| !v.is_empty() && *v != "none").map(str::to_string);
        Named { user: value("session_authorization"), role: value("role") }
    }

    /// The role that the settings of the start name. One that is not there is a warning.
    pub fn take_starting_role(&mut self) {
        let Some(name) = self.named().role else { return };
        match self.oid_of_role(&name) {
            Ok(_) => self.follow_roles(),
            Err(e) => self.notice(Severity::Warning, e.message()),
        }
    }

    fn oid_of_role(&self, name: &str) -> Result<Oid> {
        let roles = self.seen_roles().ok_or_else(|| Error::internal("roles cannot be read"))?;
        roles.named(name).map(|role| role.oid).ok_or_else(|| missing_role(name))
    }

    /// 42501 unless the session's user may go to work as that role.
    fn refuse_role(&mut self, name: &str) -> Result<()> {
        let roles = self.known_roles()?;
        let user = roles.named(&self.identity.session_user).map_or(self.identity.login_role, |role| role.oid);
        let role = roles.named(name).ok_or_else(|| missing_role(name))?;
        if roles.seen_from(self.database.oid).may_set(user, role.oid) {
            return Ok(());
        }
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied to set role \"{name}\"")))
    }

    /// 42501 unless who has logged in may have the session pass as that role's.
    fn refuse_user(&mut self, name: &str) -> Result<()> {
        let roles = self.known_roles()?;
        let role = roles.named(name).ok_or_else(|| missing_role(name))?;
        if role.oid == self.identity.login_role || roles.is_superuser(self.identity.login_role) {
            return Ok(());
        }
        let message = format!("permission denied to set session authorization \"{name}\"");
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }

    /// The roles, without a transaction too.
    fn known_roles(&mut self) -> Result<Arc<Roles>> {
        if self.transaction.txn.is_some() { self.roles() } else { Ok(self.cluster.roles()?.1) }
    }

    pub(crate) fn set_role(&mut self, name: &str, scope: SettingScope) -> Result<()> {
        self.refuse_identity("role")?;
        if name != "none" {
            self.refuse_role(name)?;
        }
        self.note_superuser();
        self.settings.set("role", name, scope)?;
        self.follow_roles();
        Ok(())
    }

    pub(crate) fn reset_role(&mut self, scope: SettingScope) -> Result<()> {
        self.refuse_identity("role")?;
        self.note_superuser();
        self.settings.reset("role", scope)?;
        self.follow_roles();
        Ok(())
    }

    /// None: the one who has logged in.
    pub fn set_session_authorization(&mut self, name: Option<&str>, scope: SettingScope) -> Result<()> {
        self.refuse_identity("session_authorization")?;
        if let Some(name) = name {
            self.refuse_user(name)?;
        }
        self.note_superuser();
        let (mine, known) = (self.identity.login_name.to_string(), self.identity.session_user.to_string());
        self.settings.note_untold("session_authorization", known);
        self.settings.set("session_authorization", name.unwrap_or(&mine), scope)?;
        self.settings.set("role", "none", scope)?;
        self.follow_roles();
        Ok(())
    }

    fn note_superuser(&mut self) {
        let known = self.shown("is_superuser");
        self.settings.note_untold("is_superuser", known);
    }

    /// Has another role go to work until [`SessionContext::resume_role`]. What holds already is not loosened.
    pub fn act_as(&mut self, role: Oid, restriction: Restriction) -> Result<SuspendedRole> {
        let suspended = SuspendedRole {
            role: (self.identity.current_role, self.identity.role_name.clone()),
            restriction: self.identity.restriction,
        };
        if role != self.identity.current_role {
            let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("role with OID {role} does not exist"));
            let name = self.known_roles()?.role(role).map(|role| role.name.clone()).ok_or_else(missing)?;
            (self.identity.current_role, self.identity.role_name) = (role, name.as_str().into());
            self.forget_path();
        }
        self.identity.restriction = self.identity.restriction.max(restriction);
        Ok(suspended)
    }

    pub fn resume_role(&mut self, suspended: SuspendedRole) {
        self.identity.restriction = suspended.restriction;
        if self.identity.current_role != suspended.role.0 {
            (self.identity.current_role, self.identity.role_name) = suspended.role;
            self.forget_path();
        }
    }

    /// 42501 for a setting that says who is at work, where somebody else's code runs.
    fn refuse_identity(&self, setting: &str) -> Result<()> {
        let within = match self.identity.restriction {
            Restriction::None => return Ok(()),
            Restriction::LocalRole => "security-definer function",
            Restriction::Operation => "security-restricted operation",
        };
        let message = format!("cannot set parameter \"{setting}\" within {within}");
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }

    /// 42501 for what may not be done within a command that does something for the owner of a table.
    pub fn refuse_in_restricted_operation(&self, what: &str) -> Result<()> {
        if self.identity.restriction != Restriction::Operation {
            return Ok(());
        }
        let message = format!("cannot {what} within security-restricted operation");
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }

    /// The session is at work as the settings say.
    fn follow_roles(&mut self) {
        let named = self.named();
        let user = named.user.map_or_else(|| self.identity.login_name.clone(), |name| name.as_str().into());
        let role = named.role.map_or_else(|| user.clone(), |name| name.as_str().into());
        self.identity.session_user = user;
        // A role that is gone leaves the one in force.
        if role != self.identity.role_name
            && let Ok(oid) = self.oid_of_role(&role)
        {
            (self.identity.current_role, self.identity.role_name) = (oid, role);
            self.forget_path();
        }
    }

    /// Changes settings back at the end of (a part of) a transaction.
    pub fn change_settings_back(&mut self, change: impl FnOnce(&mut SessionSettings)) {
        if self.settings.mark() == 0 {
            return;
        }
        if !self.settings.has_changed(&["role", "session_authorization"]) {
            return change(&mut self.settings);
        }
        let before = self.named();
        self.note_superuser();
        let user = self.identity.session_user.to_string();
        self.settings.note_untold("session_authorization", user);
        change(&mut self.settings);
        if self.named() != before {
            self.follow_roles();
        }
    }
}
