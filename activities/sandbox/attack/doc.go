// Package attack tries to break out of the sandbox and judges the attempts from outside.
//
// The product has one attack for each wall, in table_linux.go; the tests add other attacks on them.
//
// Start with Run in attack.go, then judge_linux.go. An attack has up to four parts: setup prepares the
// host (a secret, a listener, a victim), try runs in the sandbox, observe runs on the host meanwhile, and
// proof reads the effect on the host. The attacker knows every name, number and address, and no secret.
// Its own word counts only where an attack has no visible effect, such as a refused system call.
//
// Three processes take part, all of them this binary: the judge (Run); for each attack a worker that
// holds secrets as a real one does and runs one command in a sandbox; and the attacker in that sandbox.
//
// Bombs are bounded: at most 800 processes, 1.5 GiB of memory and 1 GiB of files, on a host with more
// than twice that to spare.
//
// # Known gaps
//
// Level full promises to stop every attack. Level landlock has neither namespaces nor mounts, so that
// commands see the host's files and the workspace is one file system. It leaves open:
//
//   - peers_write: read-only parts of the workspace are protected by their mode only, which their owner can change.
//   - chmod_outside: Landlock has no rule for a file's mode.
//   - chown_outside: Landlock has no rule for a file's group.
//   - utime_outside: Landlock has no rule for a file's times.
//   - xattr_outside: Landlock has no rule for extended attributes.
//   - stat_outside: Landlock has no rule for reading a file's size.
//   - watch_outside: Landlock has no rule for inotify.
//
// Level off promises nothing.
package attack
