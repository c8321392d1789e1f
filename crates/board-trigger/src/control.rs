//! The control socket `<state_dir>/control.sock`: the way in for `boardctl`, with the kernel as witness.
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// File name of the socket below the state directory.
pub(crate) const SOCKET: &str = "control.sock";

/// Binds the socket, 0600. One that a crash left is replaced; one that answers belongs to a running trigger.
///
/// # Errors
/// If another trigger answers on it, something else lies at its path, or it cannot be bound.
pub(crate) fn bind(state_dir: &Path) -> anyhow::Result<(UnixListener, PathBuf)> {
    bind_at(&state_dir.join(SOCKET), 0o600)
}

/// Binds a unix socket with this mode, which it has from its first moment under its name.
///
/// # Errors
/// As [`bind`].
pub(crate) fn bind_at(path: &Path, mode: u32) -> anyhow::Result<(UnixListener, PathBuf)> {
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.file_type().is_socket() => {
            anyhow::ensure!(
                UnixStream::connect(path).is_err(),
                "{}: another board answers here",
                path.display()
            );
        }
        Ok(_) => anyhow::bail!("{} is there and is no socket", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    }
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!(".{}", std::process::id()));
    let staged = PathBuf::from(staged);
    let listen = || -> std::io::Result<UnixListener> {
        let _ = std::fs::remove_file(&staged);
        let listener = UnixListener::bind(&staged)?;
        std::fs::set_permissions(&staged, std::fs::Permissions::from_mode(mode))?;
        std::fs::rename(&staged, path)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    let listener = listen().with_context(|| format!("cannot listen on {}", path.display()))?;
    Ok((listener, path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (listener, path) = bind(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(bind(dir.path()).unwrap_err().to_string().contains("another board"));
        drop(listener);
        bind(dir.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(bind(dir.path()).unwrap_err().to_string().contains("no socket"));
    }
}
