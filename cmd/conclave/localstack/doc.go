// Package localstack joins the embedded stack of a data directory: every command that
// works on one calls Join, which starts the stack unless it runs. The servers
// themselves are package devserver, which only their own process imports.
//
// Four files in that directory carry the whole agreement between the commands
// and the child. Three are locks of the operating system (flock), so they are
// freed by the death of their holder however it dies, and no process is ever
// judged by its number:
//
//   - stack.lock: held by whoever runs the stack or is about to. The command
//     that wins it starts the child and hands the locked file over to it, so
//     there is no instant at which a second child could start.
//   - stack.ready: held by the child while it serves.
//   - stack.leases: shared by all commands that use the stack. The child tries
//     to take it alone; once it could for a short grace, it keeps the lock,
//     stops and exits. A command that comes in that moment waits for the lock
//     and then finds stack.lock free.
//   - stack.json: what the child serves where, valid while stack.ready is held;
//     afterwards the record from which the next child takes its ports and keys.
package localstack
