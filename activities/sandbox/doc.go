// Package sandbox runs the commands of agents so that they reach nothing but their workspace.
//
// A command runs under a child of ours: the same binary, started again, one thread of which confines
// itself before it starts the command, while the others watch it and kill what it leaves. A program
// has nothing to do for that. The child is told by its name, its empty environment and its pipes, and
// does its part in the initialisation of this package, never reaching main: in a program as large as
// cmd/conclave that takes most of the time off the start of every command, because most packages are
// initialised after this one. Any other process only looks at its name.
//
// There are three levels:
//
//   - full: namespaces of its own (user, process, mount, network, IPC, host name, cgroup), a root
//     of its own with read-only system directories, Landlock, a system call filter, resource limits.
//     A worker that is root has commands run as a user without rights, where the file system can
//     change owners by mount, and owns what they make all the same.
//   - landlock: the same without namespaces. A command can tell that other files and processes exist,
//     can change the mode, times and attributes of files that the worker's user owns, and can write to
//     the read-only parts of the workspace if it gives itself the permission. On kernels before
//     Landlock version 6 it can send signals to that user's other processes. It has no sockets but
//     connected pairs, and neither /dev/shm nor /proc of its own. A worker at this level is better
//     not root.
//   - off: a clean environment, a time limit, and the process group is killed. Nothing else.
//
// Limits on time, processor time, memory, processes, disk and output hold for full and landlock;
// off has time, disk and output. Without a delegated cgroup, memory and processor time are looked at
// ten times a second, and so are processes where the kernel does not count them, sooner when there are
// suddenly more. The disk is measured every second, and at once when the file system has lost a
// good part of what is left of the limit. What a command takes in between, and memory of the kernel, is
// bounded only by each process's own limits and by what has to stay free of the file system. After Run nothing of the command is left, and nothing survives
// the worker either, however it ends; only off cannot keep that promise.
//
// The worker must stay "dumpable" (PR_SET_DUMPABLE): the kernel lets nobody but root map users for the
// child of a process that is not. Its memory and environment are out of reach by other means.
//
// The package is not a container runtime: no images, no network, no user but one. It decides
// nothing about what may be run; the shell tool does. Only Linux has the levels full and landlock.
//
// Start at sandbox.go for the contract, start_linux.go and confined_linux.go for what the worker's side
// does, and child_linux.go for the order in which the child confines itself.
package sandbox
