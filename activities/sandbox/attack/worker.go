//go:build linux

package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"conclave/activities/sandbox"
)

// keyVariable is the variable of the worker's environment that holds a secret.
const keyVariable = "CONCLAVE_ATTACK_API_KEY"

// order is what the judge tells the worker.
type order struct {
	Level     sandbox.Level
	Limits    sandbox.Limits
	Host      sandbox.Host
	Workspace string
	Temp      string
	Programs  []string // the directory of the attacker's program, and toolchains
	Target    target
}

// account is what the worker tells the judge.
type account struct {
	Fault  string // of the machinery
	Exit   sandbox.Exit
	Bytes  int64  // of output that reached the worker
	Output []byte // the first of them
	Took   time.Duration
}

// work is a worker with one command: the attacker.
func work(stdin io.Reader, stdout io.Writer) error {
	var o order
	if err := json.NewDecoder(stdin).Decode(&o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	held := []byte(os.Getenv(keyVariable))
	if len(held) > 0 {
		o.Target.WorkerAddress = uint64(uintptr(unsafe.Pointer(&held[0])))
	}
	o.Target.Worker = os.Getpid()
	a := confine(context.Background(), o)
	runtime.KeepAlive(held)
	if err := json.NewEncoder(stdout).Encode(a); err != nil {
		return fmt.Errorf("tell the account: %w", err)
	}
	return nil
}

// confine runs the attacker in a sandbox of its own.
func confine(ctx context.Context, o order) (a account) {
	box, err := sandbox.Open(sandbox.Options{
		Workspace: o.Workspace, Temp: o.Temp, ReadOnly: []string{peers},
		Toolchains: o.Programs, Level: o.Level, Limits: o.Limits, Host: o.Host,
	})
	if err != nil {
		return account{Fault: err.Error()}
	}
	given, err := json.Marshal(o.Target)
	if err != nil {
		return account{Fault: err.Error()}
	}
	out := &counter{}
	start := time.Now()
	a.Exit, err = box.Run(ctx, sandbox.Command{
		Args:   []string{attacker, ChildCommand, "try", o.Target.Name, string(given)},
		Env:    map[string]string{"GOMAXPROCS": "2"},
		Stdout: out, Stderr: out,
	})
	a.Took = time.Since(start)
	if err != nil {
		a.Fault = err.Error()
	}
	if err := box.Close(); err != nil && a.Fault == "" {
		a.Fault = err.Error()
	}
	a.Bytes, a.Output = out.bytes, out.first
	return a
}

// counter counts what is written and keeps the first of it.
type counter struct {
	bytes int64
	first []byte
}

func (c *counter) Write(p []byte) (int, error) {
	const keep = 1 << 20
	c.bytes += int64(len(p))
	c.first = append(c.first, p[:min(len(p), keep-len(c.first))]...)
	return len(p), nil
}
