// Package attack tries to break out of the sandbox, and judges the attempts from outside.
//
// The table in child_linux.go has one attack for each wall of the sandbox; tests add more attacks
// on the same walls.
//
// Start with Run in attack.go, then read judge_linux.go. An attack has up to four parts: setup prepares the
// host (a secret, a listener, a victim), try runs in the sandbox, observe runs on the host at the same time,
// and proof reads the effect on the host. The attacker knows all names, numbers and addresses, but no
// secrets. Its own report counts only for attacks without a visible effect, such as a refused system call.
//
// Three processes take part, all of them this binary: the judge (Run); a worker for each attack, which holds
// secrets like a real one and runs one command in a sandbox; and the attacker in that sandbox.
//
// Bombs are bounded: at most 800 processes, 1.5 GiB of memory and 1 GiB of files, on a host with
// more than twice as much available.
//
// docs/sandbox.md lists the attacks that the levels below full do not stop.
package attack
