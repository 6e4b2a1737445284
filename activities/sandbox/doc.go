// Package sandbox runs the commands of agents so that they reach nothing but their workspace.
//
// A command runs under a child of ours: the same binary, started again (Child, Enter), which
// confines itself before it starts the command. There are three levels:
//
//   - full: namespaces of its own (user, process, mount, network, IPC, host name, cgroup), a root
//     of its own with read-only system directories, Landlock, a system call filter, resource limits.
//   - landlock: the same without namespaces. The command sees that other files and processes
//     exist, can change the mode of files that the worker owns, and could write to the read-only
//     parts of the workspace if it gives itself the permission. It has no sockets at all.
//   - off: a clean environment, a time limit, and the process group is killed. Nothing else.
//
// Limits on time, processor time, memory, processes, disk and output hold for full and landlock;
// off has time, disk and output. After Run nothing of the command is left, and nothing survives
// the worker either, however it ends; only off cannot keep that promise.
//
// The package is not a container runtime: no images, no network, no user but one. It decides
// nothing about what may be run; the shell tool does. Only Linux has the levels full and landlock.
//
// Start at sandbox.go for the contract, run_linux.go for what the worker's side does, and
// child_linux.go for the order in which the child confines itself.
package sandbox
