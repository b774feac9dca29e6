//! Remote tasks whose outcome survives any crash: one action, one outcome.
