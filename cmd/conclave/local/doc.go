// Package local joins the embedded stack of a data directory. Every command that uses one calls Join, which
// starts the stack unless it is running. The servers are in package server and run in a child process.
//
// Four files in the directory coordinate the commands and the child. Three are locks (engine/files/filelock),
// which the system releases when their holder dies, so no process needs to be identified by its PID:
//
//   - stack.lock: held by the process that runs or starts the stack. The command that gets it starts the
//     child and hands the locked file over, so that no second child can start in between.
//   - stack.ready: held by the child while it serves.
//   - stack.leases: shared by all commands that use the stack. The child tries to lock it exclusively; after
//     a short grace without leases it keeps the lock, stops and exits. A command that comes at that moment
//     waits for the lock and then finds stack.lock free.
//   - stack.json: the child's addresses, valid while stack.ready is held; later the
//     record from which the next child takes its ports and keys.
//
// The directory workers has a file of each worker process (worker.OpenRoster). The stack
// reports the activities of dead ones as failed.
//
// A Gate (gate.go) restricts servers on loopback, whose ports every user of the machine can
// reach, to the connections of one user. It uses the kernel's record of the user that owns the
// other end of a local connection (Linux, macOS).
//
// Start with Join in stack.go; launch.go starts the child.
package local
