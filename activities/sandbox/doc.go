// Package sandbox runs agents' commands with access to their workspace only. docs/sandbox.md describes
// its levels: full, landlock and off.
//
// A command runs under a child process: this binary, started again. One thread of the child confines
// itself and starts the command; its other threads watch the command and kill its leftovers. The child
// recognises itself by its name, its empty environment and its pipes, and works in the initialisation of
// this package, before main; few imports keep that early.
//
// Level full has namespaces, its own root, Landlock, a system call filter and resource limits. If the
// worker is root and the file system supports mounts with changed owners, commands run as an unprivileged
// user. Level landlock has no namespaces: a command can tell that other files and processes exist, and
// change the mode, times and attributes of files of the worker's user, who should not be root. Level off
// has a clean environment, a time limit, limits of disk and output, and the end of the process group.
//
// Without a delegated cgroup, memory and processor time are polled ten times a second, and so are
// processes where the kernel does not count them; the disk is measured every second. After Run no process
// of the command is left, and none survives the worker, except at level off.
//
// The worker must stay "dumpable" (PR_SET_DUMPABLE): the kernel lets only root map users for the child
// of a process that is not.
//
// Start at sandbox.go for the contract, start_linux.go and running_linux.go for the worker's side, and
// child_linux.go for the order in which the child confines itself.
package sandbox
