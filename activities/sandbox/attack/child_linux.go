package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

const (
	peers    = "peers"             // directory in the workspace with the answers of others, read-only for the agent
	attacker = "conclave-attacker" // name of this binary in the sandbox, found by PATH

	// keyVariable is the environment variable of the worker that holds a secret.
	keyVariable = "CONCLAVE_ATTACK_API_KEY"
)

// target describes the host to the attacker: paths, IDs and addresses, but no secrets.
type target struct {
	Name  string
	Token string // marks the attacker's processes and files for the judge

	Outside string // a directory beside the workspace
	Secret  string // a file in it with a secret
	Prey    string // a file in it that an attack tries to change

	Worker        int
	WorkerAddress int64 // address of a secret in the worker's memory
	Victim        int

	Addresses []string // addresses of sockets
	Paths     []string // paths of further files
	Number    int64
	Data      []byte
}

// workOrder is the input that the judge sends to the worker.
type workOrder struct {
	Sandbox sandbox.Options
	Target  target
}

// account is the output that the worker sends to the judge.
type account struct {
	Fault  string // an error of the sandbox itself
	Exit   sandbox.Exit
	Bytes  int64  // number of output bytes that reached the worker
	Output []byte // the first MiB of them
	Took   time.Duration
}

// report is printed by the attacker as lines of JSON: first a line with Started, and at the end one
// with the other fields.
type report struct {
	Started bool   `json:"attack_started,omitempty"`
	Ended   bool   `json:"attack_ended,omitempty"`
	Proof   string `json:"attack_proof,omitempty"` // proof of success, as far as the attacker can tell
	Error   string `json:"attack_error,omitempty"` // reason of a failure
}

func runChild(list []attack, args []string, stdin io.Reader, stdout io.Writer) int {
	args = append(args, "")
	var err error
	switch role, args := args[0], args[1:len(args)-1]; role {
	case "work":
		err = runWorker(stdin, stdout)
	case "try":
		err = tryAttack(list, args, stdout)
	case "beat":
		err = keepBeating()
	default:
		err = fmt.Errorf("%q is not a part of an attack; `conclave sandbox check` starts these processes", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	return 0
}

func runWorker(stdin io.Reader, stdout io.Writer) error {
	var o workOrder
	if err := json.NewDecoder(stdin).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	key := []byte(os.Getenv(keyVariable))
	if len(key) > 0 {
		o.Target.WorkerAddress = int64(uintptr(unsafe.Pointer(&key[0])))
	}
	o.Target.Worker = os.Getpid()
	a := runAttacker(context.Background(), o)
	runtime.KeepAlive(key)
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		return fmt.Errorf("write the account: %w", err)
	}
	return nil
}

func runAttacker(ctx context.Context, o workOrder) (a account) {
	box, err := sandbox.Open(o.Sandbox)
	if err != nil {
		return account{Fault: err.Error()}
	}
	arguments, _ := json.Marshal(o.Target) // a target always has a JSON form
	start := time.Now()
	a.Exit, err = box.Run(ctx, sandbox.Command{
		Args:   []string{attacker, ChildCommand, "try", string(arguments)},
		Env:    map[string]string{"GOMAXPROCS": "2"},
		Stdout: &a, Stderr: &a,
	})
	a.Took = time.Since(start)
	if err = errors.Join(err, box.Close()); err != nil {
		a.Fault = err.Error()
	}
	return a
}

// Write counts the bytes of the attacker's output and keeps the first MiB.
func (a *account) Write(p []byte) (int, error) {
	const limit = 1 << 20
	a.Bytes += int64(len(p))
	a.Output = append(a.Output, p[:min(len(p), limit-len(a.Output))]...)
	return len(p), nil
}

func tryAttack(list []attack, args []string, stdout io.Writer) error {
	var t target
	if err := json.Unmarshal([]byte(strings.Join(args, " ")), &t); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	a, ok := findAttack(list, t.Name)
	if !ok {
		return fmt.Errorf("no attack %q", t.Name)
	}
	reports := json.NewEncoder(stdout)
	if err := reports.Encode(report{Started: true}); err != nil {
		return fmt.Errorf("report the start: %w", err)
	}
	r := report{Ended: true}
	var err error
	if r.Proof, err = a.try(t); err != nil {
		r.Error = err.Error()
	}
	fmt.Fprintln(stdout) // ends a line of output that was cut
	return reports.Encode(r)
}

// beatFile is a file in the workspace that grows while a daemon of the attacker is running.
const beatFile = "beat"

func keepBeating() error {
	ignoreSignals()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := writeLine(beatFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND); err != nil {
			return err
		}
	}
	return nil
}

func ignoreSignals() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGXCPU, unix.SIGUSR1, unix.SIGUSR2)
}

func daemonCommand(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{ChildCommand}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

func startDaemon(args ...string) (*exec.Cmd, error) {
	cmd, err := daemonCommand(args...)
	if err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}

// secretForm matches all secrets.
var secretForm = regexp.MustCompile(`sk-attack-[0-9a-f]{32}`)

// findSecrets returns the secrets in data, which the judge verifies. It returns an error if there are none.
func findSecrets(data []byte) (string, error) {
	found := secretForm.FindAllString(string(data), 64)
	if len(found) == 0 {
		return "", fmt.Errorf("no secret in %d bytes", len(data))
	}
	return strings.Join(found, " "), nil
}

// provenUnless returns the attacker's proof for an attack whose effect the host can see.
func provenUnless(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return "done", nil
}

// noRule is the reason why Landlock alone does not protect attributes.
const noRule = "Landlock has no rule for it, and a system call filter cannot see which file is meant"

// table has the attacks of the product: one for each wall of the sandbox.
var table = []attack{
	// Secrets of the worker.
	{
		name: "env_secret", what: "read the worker's API key in the command's own environment",
		try: func(target) (string, error) { return findSecrets([]byte(strings.Join(os.Environ(), "\n"))) }, proof: secretStolen,
	},
	{
		name: "parent_environ", what: "read the worker's API key in /proc/PID/environ of every visible process",
		try: func(t target) (string, error) { return lootFiles(procPaths(t, "environ")...) }, proof: secretStolen,
	},
	{
		name: "inherited_fd", what: "read a file of the worker through a descriptor that was left open",
		setup: setupOpenFile, try: lootDescriptors, proof: secretStolen,
	},
	{name: "supervisor_mem", what: "read the worker's memory in /proc/PID/mem", try: readMemory, proof: secretStolen},

	// Files of the host.
	{
		name: "read_hostfile", what: "read a file beside the workspace, by its path and by ..", proof: secretStolen,
		try: func(t target) (string, error) {
			return lootFiles(t.Secret, "../outside/"+secretName, "/proc/self/cwd/../outside/"+secretName, "/proc/self/root"+t.Secret)
		},
	},
	{
		name: "symlink_read", what: "read a file beside the workspace through a symbolic link", proof: secretStolen,
		try: func(t target) (string, error) {
			if err := errors.Join(os.Symlink(t.Secret, "link"), os.Symlink(t.Outside, "dir")); err != nil {
				return "", err
			}
			return lootFiles("link", "dir/"+secretName)
		},
	},
	{
		name: "write_outside", what: "make a file beside the workspace", proof: fileMade,
		try: func(t target) (string, error) {
			return provenUnless(writeLine(t.Outside+"/new", os.O_WRONLY|os.O_CREATE))
		},
	},
	{
		name: "overwrite_outside", what: "overwrite a file beside the workspace", proof: preyChanged,
		try: func(t target) (string, error) { return provenUnless(writeLine(t.Prey, os.O_WRONLY)) },
	},
	{
		name: "delete_outside", what: "delete a file beside the workspace", proof: preyChanged,
		try: func(t target) (string, error) { return provenUnless(os.Remove(t.Prey)) },
	},
	{
		name: "chmod_outside", what: "change the mode of a file beside the workspace", known: noRule, proof: preyChanged,
		try: func(t target) (string, error) { return provenUnless(os.Chmod(t.Prey, 0o751)) },
	},
	{
		name: "stat_outside", what: "learn the size of a file beside the workspace", known: noRule, proof: proofClaimed,
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
		name: "tcp", what: "connect to a server on the host's loopback by TCP, IPv4 and IPv6", setup: setupTCP, proof: socketReached,
		try: func(t target) (string, error) { return dialAddresses("tcp", t.Addresses) },
	},
	{
		name: "udp", what: "send a datagram to the host's loopback", proof: socketReached,
		setup: func(s *scene) error { return s.openListener("udp4", "127.0.0.1:0") },
		try:   func(t target) (string, error) { return dialAddresses("udp4", t.Addresses) },
	},
	{
		name: "unix_path", what: "connect to a Unix socket of the host by its path", proof: socketReached,
		setup: func(s *scene) error { return s.openListener("unix", s.target.Outside+"/stream") },
		try:   func(t target) (string, error) { return dialAddresses("unix", t.Addresses) },
	},
	{
		name: "unix_abstract", what: "connect to an abstract Unix socket of the host", proof: socketReached,
		setup: func(s *scene) error { return s.openListener("unix", "@conclave-"+s.target.Token) },
		try:   func(t target) (string, error) { return dialAddresses("unix", t.Addresses) },
	},
	{
		name: "raw_socket", what: "make a socket for raw packets", proof: proofClaimed,
		try: func(target) (string, error) {
			return makeSocket("AF_INET raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		},
	},

	// Processes of the host, and the worker that must end the command.
	{
		name: "kill_host", what: "kill a process of the host", setup: setupVictim, proof: victimKilled, fatal: true,
		try: func(t target) (string, error) {
			return killVictim(t, func(pid int) error { return unix.Kill(pid, unix.SIGKILL) })
		},
	},
	{
		name: "ptrace_host", what: "attach to a process of the host as its debugger, and kill it",
		setup: setupVictim, try: attachDebugger, proof: victimKilled,
	},
	{
		name: "kill_supervisor", what: "kill the worker and the attacker's parent, so that nobody ends the attacker's daemon",
		try: func(t target) (string, error) { return signalSupervisor(t, unix.SIGKILL) }, proof: workerHarmed, fatal: true,
	},
	{
		name: "worker_killed", what: "outlive a worker that was killed with SIGKILL", proof: livesOn, fatal: true, lethal: true,
		try: func(t target) (string, error) {
			_, err := startDaemon("beat", t.Token)
			time.Sleep(20 * time.Second)
			return "", err
		},
		observe: func(s *scene) {
			if beatSize(s) > 0 {
				_ = s.worker.Process.Kill() // it may be dead already
			}
		},
	},
	{
		name: "daemon", what: "leave a daemon behind, in a session of its own", proof: livesOn,
		try: func(t target) (string, error) {
			_, err := startDaemon("beat", t.Token)
			time.Sleep(300 * time.Millisecond)
			return provenUnless(err)
		},
	},

	// Limits.
	{
		name: "forkbomb", what: fmt.Sprintf("start %d processes", manyProcesses), setup: setupProcesses, try: forkBomb,
		observe: func(s *scene) { s.recordPeak(int64(len(processesWith(s.target.Token)))) },
		proof:   atLeast(seenProcesses, "processes at a time"), fatal: true,
	},
	{
		name: "mem10g", what: "reserve 10 GiB and use 1 GiB of it in one process", setup: setupMemory,
		try: func(target) (string, error) {
			_, reserve := unix.Mmap(-1, 0, 10<<30, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
			return "", errors.Join(reserve, useMemory(bigMemory))
		},
		observe: measureResident, proof: atLeast(seenMemory, "bytes at a time"), fatal: true,
	},
	{
		name: "disk_many", what: "write 1 GiB to files of the workspace of which each is small", setup: setupDisk,
		try:   func(target) (string, error) { return "", createFiles(bigDisk/pieceOfDisk, pieceOfDisk) },
		proof: diskUsed, fatal: true,
	},
	{
		name: "disk_inodes", what: fmt.Sprintf("make %d files in the workspace", manyFiles), setup: setupDisk,
		try: func(target) (string, error) { return "", createFiles(manyFiles, 0) }, proof: filesMade, fatal: true,
	},

	// The kernel.
	{name: "mount", what: "mount a file system", try: mountFilesystem, proof: proofClaimed},
	{name: "userns", what: "get all privileges in a user namespace of its own", try: newUser, proof: proofClaimed},
	{
		name: "kernel_module", what: "have a kernel module loaded (an invalid one)",
		setup: skipUnlessPossible(loadModule), try: loadModule, proof: proofClaimed,
	},
	{name: "caps", what: "have capabilities, or be able to gain some with a set-user-ID program", try: gainCapabilities, proof: proofClaimed},
}
