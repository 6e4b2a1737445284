// Package attack tries to break out of the sandbox of package sandbox, and judges
// from outside whether it could.
//
// It is neither a part of the sandbox nor a proof: what it lists was tried, and
// nothing else.
//
// Start with Run, which takes the attacks one after the other. Each of them has
// four parts, all in its entry of the list: what is planted on the host (a secret,
// a listener, a victim), what the attacker does inside, what is watched meanwhile,
// and how the host sees whether it worked: the victim is dead, the file changed,
// the datagram arrived, the daemon still writes, the secret is in the output. The
// attacker knows every name, number and address, and none of the secrets. Only
// where an attack has no effect on a host, as a system call that should be refused,
// its own word is taken. What this host has nothing to try on is "not tried" and
// never "stopped".
//
// Three processes take part, all of them our own binary: the judge (Run), for each
// attack a worker that holds secrets as a real one does and runs the command in a
// sandbox, and the attacker in it. The worker is a process of its own so that it
// can be a victim: its memory, its environment, its life.
//
// Bombs are bounded, so that they do no harm where nothing stops them: at most 800
// processes, 1.5 GiB of memory and 1 GiB of files, and only on a host that has more
// than twice of that to spare.
//
// # What is known to get through
//
// Level full promises to stop every attack. So does level landlock, but for these: it
// has no namespaces, so that a command sees that other files are there, and no mounts,
// so that the workspace is one.
//
//   - peers_write: read-only parts of the workspace are protected by their mode only,
//     which their owner can change.
//   - chmod_outside: Landlock has no rule for a file's mode.
//   - chown_outside: nor for its group.
//   - utime_outside: nor for its times.
//   - xattr_outside: nor for its extended attributes.
//   - stat_outside: nor for looking at a file's size.
//   - watch_outside: nor for inotify.
//
// Level off promises nothing.
package attack
