//! x
pub(crate) fn fuzz(_: &[String]) -> crate::Result<()> {
    Ok(())
}
pub(crate) fn smoke(_: u64) -> crate::Result<()> {
    Ok(())
}
