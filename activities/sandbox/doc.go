// Package sandbox runs agents' commands with access only to their workspace. docs/sandbox.md
// describes its levels: full, landlock and off. Package attack tries to break out of it.
//
// Start with Open in open.go and Run in run.go. The parts are:
//
//   - run.go has the API and the limits of a run; disk.go measures the disk; running_linux.go is
//     the worker's side of a command; cgroup_linux.go also probes the host.
//   - child_linux.go has the order in which the child confines itself: a root of its own
//     (root_linux.go), limits and privileges (restrict_linux.go), Landlock, and the filter of system
//     calls. guard_linux.go and tasks_linux.go watch and kill the command's processes.
//   - document.go reads a PDF in a sandbox, page.go the text of its pages.
//   - A command reaches the network through a proxy of the worker (proxy.go of package tools).
//
// # Commands
//
// A command runs under a child process, which is this binary, started again. One thread of the child confines
// itself and starts the command; the other threads watch the command and kill its remaining processes. The
// child recognizes its role by its name, its empty environment and its pipes. It runs during the
// initialization of this package, before main; the package has few imports, so that this happens early.
//
// Level full uses namespaces, its own root, Landlock, a system call filter and resource limits. If the worker
// is root and the file system supports mounts with changed owners, commands run as an unprivileged user.
// Level landlock has no namespaces: a command can detect other files and processes, and can change the mode,
// times and attributes of files that belong to the worker's user, who should not be root. Level off provides
// a clean environment, a limit on time, disk and output, and the end of the process group.
//
// Without a delegated cgroup, memory and processor time are polled ten times a second, as are
// processes if the kernel does not count them. The disk is measured every second. After Run no
// process of the command is left, and none outlives the worker, except at level off.
//
// The worker must remain "dumpable" (PR_SET_DUMPABLE). Otherwise the kernel lets only root map
// users for its child.
package sandbox
