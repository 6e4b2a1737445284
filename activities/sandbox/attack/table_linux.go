package attack

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// noRule is the reason why Landlock alone does not protect attributes.
const noRule = "Landlock has no rule for it, and a system call filter cannot see which file is meant"

// table has the attacks of the product: one for each wall of the sandbox.
var table = []attack{
	// Secrets of the worker.
	{
		name: "env_secret", what: "read the worker's API key in the command's own environment",
		try: func(target) (string, error) { return loot([]byte(strings.Join(os.Environ(), "\n"))) }, proof: stolen,
	},
	{
		name: "parent_environ", what: "read the worker's API key in /proc/PID/environ of every visible process",
		try: func(t target) (string, error) { return lootFiles(procPaths(t, "environ")...) }, proof: stolen,
	},
	{
		name: "inherited_fd", what: "read a file of the worker through a descriptor that was left open",
		setup: setupOpenFile, try: lootDescriptors, proof: stolen,
	},
	{name: "supervisor_mem", what: "read the worker's memory in /proc/PID/mem", try: readMemory, proof: stolen},

	// Files of the host.
	{
		name: "read_hostfile", what: "read a file beside the workspace, by its path and by ..", proof: stolen,
		try: func(t target) (string, error) {
			return lootFiles(t.Secret, "../outside/"+secretName, "/proc/self/cwd/../outside/"+secretName, "/proc/self/root"+t.Secret)
		},
	},
	{
		name: "symlink_read", what: "read a file beside the workspace through a symbolic link", proof: stolen,
		try: func(t target) (string, error) {
			if err := errors.Join(os.Symlink(t.Secret, "link"), os.Symlink(t.Outside, "dir")); err != nil {
				return "", err
			}
			return lootFiles("link", "dir/"+secretName)
		},
	},
	{
		name: "write_outside", what: "make a file beside the workspace", proof: fileMade,
		try: func(t target) (string, error) { return done(write(t.Outside+"/new", os.O_WRONLY|os.O_CREATE)) },
	},
	{
		name: "overwrite_outside", what: "overwrite a file beside the workspace", proof: preyChanged,
		try: func(t target) (string, error) { return done(write(t.Prey, os.O_WRONLY)) },
	},
	{
		name: "delete_outside", what: "delete a file beside the workspace", proof: preyChanged,
		try: func(t target) (string, error) { return done(os.Remove(t.Prey)) },
	},
	{
		name: "chmod_outside", what: "change the mode of a file beside the workspace", known: noRule, proof: preyChanged,
		try: func(t target) (string, error) { return done(os.Chmod(t.Prey, 0o751)) },
	},
	{
		name: "stat_outside", what: "learn the size of a file beside the workspace", known: noRule, proof: claimed,
		try: func(t target) (string, error) {
			info, err := os.Stat(t.Prey)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("the file has %d bytes", info.Size()), nil
		},
	},
	{
		name: "peers_write", what: "change the answer of another agent in the workspace", try: changePeer, proof: peerChanged,
		known: "without a mount of its own it is only protected by its mode, which its owner can change",
	},

	// Sockets.
	{
		name: "tcp", what: "connect to a server on the host's loopback by TCP, IPv4 and IPv6", setup: setupTCP, proof: reached,
		try: func(t target) (string, error) { return dial("tcp", t.Addresses) },
	},
	{
		name: "udp", what: "send a datagram to the host's loopback", proof: reached,
		setup: func(s *scene) error { return s.listen("udp4", "127.0.0.1:0") },
		try:   func(t target) (string, error) { return dial("udp4", t.Addresses) },
	},
	{
		name: "unix_path", what: "connect to a Unix socket of the host by its path", proof: reached,
		setup: func(s *scene) error { return s.listen("unix", s.target.Outside+"/stream") },
		try:   func(t target) (string, error) { return dial("unix", t.Addresses) },
	},
	{
		name: "unix_abstract", what: "connect to an abstract Unix socket of the host", proof: reached,
		setup: func(s *scene) error { return s.listen("unix", "@conclave-"+s.target.Token) },
		try:   func(t target) (string, error) { return dial("unix", t.Addresses) },
	},
	{
		name: "raw_socket", what: "make a socket for raw packets", proof: claimed,
		try: func(target) (string, error) {
			return makeSocket("AF_INET raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		},
	},

	// Processes of the host, and the worker that must end the command.
	{
		name: "kill_host", what: "kill a process of the host", setup: setupVictim, proof: killed, fatal: true,
		try: func(t target) (string, error) {
			return killVictim(t, func(pid int) error { return unix.Kill(pid, unix.SIGKILL) })
		},
	},
	{
		name: "ptrace_host", what: "attach to a process of the host as its debugger, and kill it",
		setup: setupVictim, try: attach, proof: killed,
	},
	{
		name: "kill_supervisor", what: "kill the worker and the attacker's parent, so that nobody ends the attacker's daemon",
		try: func(t target) (string, error) { return signalSupervisor(t, unix.SIGKILL) }, proof: outlived, fatal: true,
	},
	{
		name: "worker_killed", what: "outlive a worker that was killed with SIGKILL", proof: livesOn, fatal: true, lethal: true,
		try: func(t target) (string, error) {
			_, err := spawn("beat", t.Token)
			time.Sleep(20 * time.Second)
			return "", err
		},
		observe: func(s *scene) {
			if beats(s) > 0 {
				_ = s.worker.Process.Kill() // it may be dead already
			}
		},
	},
	{
		name: "daemon", what: "leave a daemon behind, in a session of its own", proof: livesOn,
		try: func(t target) (string, error) {
			_, err := spawn("beat", t.Token)
			time.Sleep(300 * time.Millisecond)
			return done(err)
		},
	},

	// Limits.
	{
		name: "forkbomb", what: fmt.Sprintf("start %d processes", manyProcesses), setup: setupProcesses, try: forkBomb,
		observe: func(s *scene) { s.measured(int64(len(processes(s.target.Token)))) },
		proof:   atLeast(seenProcesses, "processes at a time"), fatal: true,
	},
	{
		name: "mem10g", what: "reserve 10 GiB and use 1 GiB of it in one process", setup: setupMemory,
		try: func(target) (string, error) {
			_, reserve := unix.Mmap(-1, 0, 10<<30, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
			return "", errors.Join(reserve, use(bigMemory))
		},
		observe: measureResident, proof: atLeast(seenMemory, "bytes at a time"), fatal: true,
	},
	{
		name: "disk_many", what: "write 1 GiB to files of the workspace of which each is small", setup: setupDisk,
		try:   func(target) (string, error) { return "", fill(bigDisk/pieceOfDisk, pieceOfDisk) },
		proof: diskUsed, fatal: true,
	},
	{
		name: "disk_inodes", what: fmt.Sprintf("make %d files in the workspace", manyFiles), setup: setupDisk,
		try: func(target) (string, error) { return "", fill(manyFiles, 0) }, proof: filesMade, fatal: true,
	},

	// The kernel.
	{name: "mount", what: "mount a file system", try: mount, proof: claimed},
	{name: "userns", what: "get all privileges in a user namespace of its own", try: newUser, proof: claimed},
	{
		name: "kernel_module", what: "have a kernel module loaded (an invalid one)",
		setup: possible(loadModule), try: loadModule, proof: claimed,
	},
	{name: "caps", what: "have capabilities, or be able to gain some with a set-user-ID program", try: capabilities, proof: claimed},
}
