// Package attack tries to break out of the sandbox and judges the attempts from outside.
//
// It is not a proof of the sandbox: only the listed attacks are tried. The product has one attack for
// each wall, in table_linux.go; the tests add the other attacks on the same walls.
//
// Start with Run in attack.go, then judge_linux.go. An attack has up to four parts: setup prepares the
// host (a secret, a listener, a victim), try runs in the sandbox, observe runs on the host meanwhile, and
// proof reads the effect on the host: the victim is dead, the file changed, the datagram arrived, the
// daemon still writes, the secret is in the output. The attacker knows every name, number and address,
// and no secret. Its own word counts only where an attack has no visible effect on a host, such as a
// system call that must be refused. An attack that this host offers no way to try is "not tried", never
// "stopped".
//
// Three processes take part, all of them this binary: the judge (Run); for each attack a worker that
// holds secrets as a real one does and runs one command in a sandbox; and the attacker in that sandbox.
// The worker is a separate process so that its memory, environment and life can be attacked.
//
// Bombs are bounded and therefore harmless where nothing stops them: at most 800 processes, 1.5 GiB of
// memory and 1 GiB of files, and only on a host with more than twice that to spare.
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
