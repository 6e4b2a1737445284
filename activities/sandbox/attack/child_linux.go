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

// runChild performs one part of an attack in list.
func runChild(list []attack, args []string, stdin io.Reader, stdout io.Writer) int {
	args = append(args, "")
	var err error
	switch role, args := args[0], args[1:len(args)-1]; role {
	case "work":
		err = work(stdin, stdout)
	case "try":
		err = try(list, args, stdout)
	case "beat":
		err = beat()
	default:
		err = fmt.Errorf("%q is not a part of an attack; `conclave sandbox check` starts these processes", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	return 0
}

// work is the worker's part: it runs the attacker in a sandbox.
func work(stdin io.Reader, stdout io.Writer) error {
	var o workOrder
	if err := json.NewDecoder(stdin).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	key := []byte(os.Getenv(keyVariable))
	if len(key) > 0 {
		o.Target.WorkerAddress = int64(uintptr(unsafe.Pointer(&key[0])))
	}
	o.Target.Worker = os.Getpid()
	a := confine(context.Background(), o)
	runtime.KeepAlive(key)
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		return fmt.Errorf("write the account: %w", err)
	}
	return nil
}

func confine(ctx context.Context, o workOrder) (a account) {
	box, err := sandbox.Open(o.Sandbox)
	if err != nil {
		return account{Fault: err.Error()}
	}
	arguments, err := json.Marshal(o.Target)
	if err != nil {
		return account{Fault: err.Error()}
	}
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

func try(list []attack, args []string, stdout io.Writer) error {
	var t target
	if err := json.Unmarshal([]byte(strings.Join(args, " ")), &t); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	a, ok := find(list, t.Name)
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

// beat runs as a daemon that appends to the beat file for up to a minute.
func beat() error {
	ignoreSignals()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err := write(beatFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND); err != nil {
			return err
		}
	}
	return nil
}

func ignoreSignals() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGXCPU, unix.SIGUSR1, unix.SIGUSR2)
}

// daemon returns a command that starts this binary in another role and a new session.
func daemon(args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, append([]string{ChildCommand}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

func spawn(args ...string) (*exec.Cmd, error) {
	cmd, err := daemon(args...)
	if err != nil {
		return nil, err
	}
	return cmd, cmd.Start()
}

// secretForm matches all secrets.
var secretForm = regexp.MustCompile(`sk-attack-[0-9a-f]{32}`)

// loot returns the secrets in data, which the judge verifies. It returns an error if there are
// none.
func loot(data []byte) (string, error) {
	found := secretForm.FindAllString(string(data), 64)
	if len(found) == 0 {
		return "", fmt.Errorf("no secret in %d bytes", len(data))
	}
	return strings.Join(found, " "), nil
}

// done returns the attacker's proof for an attack whose effect the host can see.
func done(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return "done", nil
}
