// Package sandbox runs agents' commands with access only to their workspace. docs/sandbox.md
// describes its levels: gvisor, full, landlock and off.
//
// A command runs under a child process, which is this binary, started again. One thread of the
// child confines itself and starts the command; the other threads watch the command and kill its
// remaining processes. The child recognizes its role by its name, its empty environment and its
// pipes. It runs during the initialization of this package, before main; the package has few
// imports, so that this happens early.
//
// Level full uses namespaces, its own root, Landlock, a system call filter and resource limits. If
// the worker is root and the file system supports mounts with changed owners, commands run as an
// unprivileged user. Level landlock has no namespaces: a command can detect other files and
// processes, and can change the mode, times and attributes of files that belong to the worker's
// user, who should not be root. Level off provides a clean environment, a limit on time, disk and
// output, and the end of the process group. Level gvisor leaves the confinement to gVisor's program
// runsc, and the child only guards it.
//
// Without a delegated cgroup, memory and processor time are polled ten times a second, as are
// processes if the kernel does not count them. The disk is measured every second. After Run no
// process of the command is left, and none outlives the worker, except at level off.
//
// The worker must remain "dumpable" (PR_SET_DUMPABLE). Otherwise the kernel lets only root map
// users for its child.
//
// Start at sandbox.go for the API, start_linux.go and running_linux.go for the worker's side, and
// child_linux.go for the order in which the child confines itself.
package sandbox
