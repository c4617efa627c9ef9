//! An rpm, written with the crate `rpm`.

use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::build::Build;
use super::contents::{COMPAT, Entry, Kind, Owner, Package, SERVER, packaging};
use super::elf::Needs;
use crate::error::Result;

/// RPM's name of the package's architecture; `noarch` for a package without programs.
pub(super) fn architecture(package: &Package) -> &'static str {
    if package.is_native { std::env::consts::ARCH } else { "noarch" }
}

/// The bytes of the rpm file.
pub(super) fn archive(package: &Package, build: &Build, needs: &Needs) -> Result<Vec<u8>> {
    let mut builder = PackageBuilder::new(
        package.name,
        &build.version,
        "BSD-3-Clause",
        architecture(package),
        package.summary,
    );
    // The package has format version 4, which rpm reads from RHEL 8 on.
    let config = BuildConfig::v4().compression(CompressionWithLevel::Gzip(9));
    builder.using_config(config.source_date(u32::try_from(build.date)?));
    builder.release("1").description(package.description).build_host("localhost");
    for entry in &package.entries {
        add(&mut builder, entry)?;
    }
    match package.name {
        SERVER => relate_server(&mut builder, needs)?,
        COMPAT => {
            let version = format!("{}-1", build.version);
            builder.requires(Dependency::eq(SERVER, version));
            // The conflict is with the packages of the servers, because RPM distributions have client and
            // server in one package.
            for other in ["valkey", "valkey-compat-redis", "redis"] {
                builder.conflicts(Dependency::any(other));
            }
        }
        other => return Err(format!("{other}: no relations are known for this package").into()),
    }
    let mut bytes = Vec::new();
    builder.build()?.write(&mut bytes)?;
    Ok(bytes)
}

fn relate_server(builder: &mut PackageBuilder, needs: &Needs) -> Result<()> {
    builder.requires(Dependency::any(format!("libc.so.6(GLIBC_{})(64bit)", needs.glibc)));
    builder.requires(Dependency::any("libgcc_s.so.1()(64bit)"));
    // The program is required by its path, because the name of its package differs between distributions.
    builder.requires(Dependency::script_pre("/usr/sbin/useradd"));
    let script = |name: &str| -> Result<String> { Ok(String::from_utf8(packaging(name)?)?) };
    builder.pre_install_script(script("rpm/pre")?);
    builder.post_install_script(script("rpm/post")?);
    builder.pre_uninstall_script(script("rpm/preun")?);
    builder.post_uninstall_script(script("rpm/postun")?);
    Ok(())
}

/// Adds one file, folder or link.
fn add(builder: &mut PackageBuilder, entry: &Entry) -> Result<()> {
    let owner = match entry.owner {
        Owner::Root => "root",
        Owner::Server => "sluice",
    };
    let mode = u16::try_from(entry.mode)?;
    // The path is changed from Debian's folder of zsh completions to that of RPM distributions.
    let path = &entry.path.replace("/zsh/vendor-completions/", "/zsh/site-functions/");
    match &entry.kind {
        Kind::Folder => {
            builder.with_dir_entry(FileOptions::dir(path).permissions(mode).user(owner).group(owner))?;
        }
        Kind::File(bytes) => {
            let options = FileOptions::new(path).permissions(mode).user(owner).group(owner);
            let is_document = path.starts_with("/usr/share/doc/");
            builder.with_file_contents(bytes.clone(), if is_document { options.doc() } else { options })?;
        }
        Kind::Config(bytes) => {
            let options = FileOptions::new(path).permissions(mode).user(owner).group(owner);
            builder.with_file_contents(bytes.clone(), options.config().noreplace())?;
        }
        Kind::Link(target) => {
            builder.with_symlink(FileOptions::symlink(path, target.as_str()).user(owner).group(owner))?;
        }
    }
    Ok(())
}
