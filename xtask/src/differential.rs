//! x
pub(crate) fn differential(_: &[String]) -> crate::Result<()> {
    Ok(())
}
