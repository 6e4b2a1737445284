// Package overlay mounts directories over each other without privileges and without changing the
// mounts that other processes see.
//
// The mounts are in a mount namespace that a child process holds. The child is this binary, started
// again: it recognizes its role by its name, its empty environment and its socket, and serves the
// requests of this process during the initialization of this package, before main. It ends when the
// socket is closed, so the mounts end with this process even if that is killed.
//
// This process reaches a mount below Mounts.Path. Such a path must not be resolved to one without
// links, which would name the host's directory below the mount.
//
// Start with Mounts in mounts_linux.go, then the child in holder_linux.go.
package overlay
