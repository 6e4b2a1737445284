// Package overlay mounts directories over each other without privileges and without changing the
// mounts that other processes see.
//
// The mounts are in a mount namespace that a child process holds. The child is this binary, started
// again: RunHolder, which main calls first, recognizes its role by its name, its empty environment and
// its socket, and serves the requests of this process. It ends when the socket is closed, so the mounts
// end with this process even if this process is killed.
//
// This process reaches the mounts at the paths that Mounts.Path returns. Do not resolve the links of
// such a path: the result would name the host's directory below the mount.
//
// Start with Mounts in mounts_linux.go, then the child in holder_linux.go.
package overlay
