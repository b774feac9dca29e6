use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

/// On whose behalf a request is made. Handles of one are unknown to every other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A principal by the name that the server knows it by.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }
}

/// A request that somebody must be allowed to make.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Access<'a> {
    /// What is asked for.
    pub kind: AccessKind<'a>,
    /// Where the request comes from.
    pub context: &'a RequestContext<RoleServer>,
}

impl<'a> Access<'a> {
    /// The head of the HTTP request, on the streamable transport.
    #[must_use]
    pub fn http(&self) -> Option<&'a Parts> {
        self.context.extensions.get()
    }
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessKind<'a> {
    /// To call this tool, which may lead to a handle.
    Call(&'a str),
    /// To see this `taskId`.
    Get(&'a str),
    /// To answer questions of this `taskId`.
    Update(&'a str),
    /// To cancel this `taskId`.
    Cancel(&'a str),
}

type Hook = dyn Fn(&Access<'_>) -> Result<Principal, ErrorData> + Send + Sync;

/// The user's hook; without one there is one principal.
#[derive(Clone, Default)]
pub(super) struct Authority(Option<Arc<Hook>>);

impl Authority {
    pub(super) fn new(
        hook: impl Fn(&Access<'_>) -> Result<Principal, ErrorData> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(hook)))
    }

    pub(super) fn principal(
        &self,
        kind: AccessKind<'_>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Principal, ErrorData> {
        match &self.0 {
            Some(hook) => hook(&Access { kind, context }),
            None => Ok(Principal::default()),
        }
    }
}
