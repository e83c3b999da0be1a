//! How a ledger page is cached.

use butler_api::{
    butler::network_pool_ledger::NetworkPoolLedger,
    net::{AddressRange, Cidr},
};
use butler_ipam::slice_of;
use butler_runtime::{
    cache::{Cached, Facts, Projection},
    object::{Kind, ObjectKey},
};
use serde_json::Value;

use super::ledger::{Page, PageContent, page_key};

/// A ledger page in types.
///
/// A page that cannot be read is kept as such instead of being left out: a page that is not seen looks like free addresses.
#[derive(Clone, Debug)]
pub(crate) struct CachedPage {
    /// The pool.
    pub(crate) pool: ObjectKey,
    content: Result<PageContent, String>,
}

impl Projection for CachedPage {
    fn kind() -> Kind {
        Kind::of::<NetworkPoolLedger>()
    }

    fn project(object: Value) -> Result<Self, serde_json::Error> {
        let key = ObjectKey::in_body(&object);
        let pool = object.pointer("/spec/poolRef/name");
        let pool = ObjectKey {
            namespace: key.namespace.clone(),
            name: pool.and_then(Value::as_str).unwrap_or_default().to_owned(),
        };
        let content = serde_json::from_value::<NetworkPoolLedger>(object)
            .map_err(|error| error.to_string())
            .and_then(|ledger| PageContent::read(&ledger.spec).map_err(|error| error.to_string()))
            .and_then(|content| in_its_place(content, &key, &pool));
        Ok(Self { pool, content })
    }
}

/// There is one page of a slice because there is one name for it. A copy under another name is nobody's book.
fn in_its_place(
    content: PageContent,
    key: &ObjectKey,
    pool: &ObjectKey,
) -> Result<PageContent, String> {
    let slice = slice_of(content.slice.start());
    if content.slice == slice && *key == page_key(pool, &slice) {
        Ok(content)
    } else {
        Err("its name and its addresses do not belong together; delete it if it is a copy".into())
    }
}

impl CachedPage {
    /// Whether it has addresses of a network.
    pub(crate) fn touches(&self, network: &str) -> bool {
        let content = self.content.as_ref();
        let network = network.parse::<Cidr>();
        network.is_ok_and(|network| {
            content.is_ok_and(|content| content.slice.overlaps(&network.range()))
        })
    }

    /// Whether it is the page of a slice.
    pub(crate) fn is_of(&self, slice: &AddressRange) -> bool {
        let content = self.content.as_ref();
        content.is_ok_and(|content| content.slice == *slice)
    }
}

/// A page as the API server has it.
pub(crate) fn from_body(
    body: Value,
) -> Result<(ObjectKey, Result<Page, String>), serde_json::Error> {
    let facts = Facts::of(&body);
    let value = CachedPage::project(body)?;
    Ok((value.pool.clone(), page(&Cached { facts, value })))
}

/// The page as the ledger needs it, or why it cannot be read.
pub(crate) fn page(cached: &Cached<CachedPage>) -> Result<Page, String> {
    let facts = &cached.facts;
    let content = cached.value.content.clone();
    let content = content.map_err(|error| {
        format!(
            "the NetworkPoolLedger {} cannot be read: {error}",
            facts.key
        )
    })?;
    Ok(Page {
        key: facts.key.clone(),
        uid: facts.uid.clone(),
        resource_version: facts.resource_version.clone(),
        deleting: facts.deleting,
        content,
    })
}
