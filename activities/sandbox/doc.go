// Package sandbox runs agents' commands with access to their workspace only.
//
// A command runs under a child process: this binary, started again. One thread of the child confines
// itself and starts the command; its other threads watch the command and kill its leftovers. Programs
// need no code for that. The child recognises itself by its name, its empty environment and its pipes,
// and does its work in the initialisation of this package, before main: most packages of a large
// program, such as cmd/conclave, are initialised after this one, which makes commands start faster.
// Any other process only compares its name.
//
// There are three levels:
//
//   - full: own namespaces (user, process, mount, network, IPC, host name, cgroup), an own root with
//     read-only system directories, Landlock, a system call filter and resource limits. If the worker is
//     root and the file system supports mounts with changed owners, commands run as an unprivileged user,
//     and the worker still owns the files that they make.
//   - landlock: the same without namespaces. A command can tell that other files and processes exist, can
//     change the mode, times and attributes of files that the worker's user owns, and can write to the
//     read-only parts of the workspace after giving itself the permission. On kernels before Landlock
//     version 6 it can send signals to that user's other processes. It has no sockets except connected
//     pairs, and neither /dev/shm nor a /proc of its own. At this level a worker should not be root.
//   - off: only a clean environment, a time limit, and the end of the process group.
//
// Limits on time, processor time, memory, processes, disk and output hold for full and landlock; off
// limits time, disk and output. Without a delegated cgroup, memory and processor time are polled ten
// times a second, and so are processes where the kernel does not count them, earlier if their number
// jumps. The disk is measured every second, and immediately when the file system has lost a good part
// of the remaining limit. Use between two measurements, and kernel memory, is bounded only by the
// limits of each process and by the free space that has to remain on the file system. After Run no
// process of the command is left, and none survives the worker; only level off cannot promise that.
//
// The worker must stay "dumpable" (PR_SET_DUMPABLE): the kernel lets only root map users for the child
// of a process that is not. Its memory and environment are protected by other means.
//
// The package is not a container runtime: it has no images, no network and one user. The shell tool,
// not this package, decides which commands may run. Only Linux has the levels full and landlock.
//
// Start at sandbox.go for the contract, start_linux.go and running_linux.go for the worker's side, and
// child_linux.go for the order in which the child confines itself.
package sandbox
