package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ChildCommand is the hidden argument with which a binary must call server.RunChild.
const ChildCommand = "__stack"

// The descriptors of the files that the child inherits, after the three standard ones.
const (
	lockFD   = 3 // descriptor of the locked stack.lock
	reportFD = 4 // pipe for the report
)

// order has the launch instructions on the child's standard input.
type order struct {
	DataDir    string `json:"data_dir"`
	Ports      Ports  `json:"ports"`
	OtherUsers bool   `json:"other_users"`
}

// report is the child's message to its starter: the stack, or an error.
type report struct {
	Stack *Stack `json:"stack,omitempty"`
	Error string `json:"error,omitempty"`
}

// launchChild starts the child, passes owner to it and waits for its report. If ctx ends first, the child
// keeps running and stops by itself when there are no leases.
func (d directory) launchChild(ctx context.Context, owner *os.File, opts Options) (Stack, error) {
	defer func() { _ = owner.Close() }()
	if opts.Logf != nil {
		opts.Logf("starting the embedded Temporal server, Web UI and S3 store on %s", d)
	}
	reports, err := d.spawnChild(owner, order{DataDir: string(d), Ports: opts.Ports, OtherUsers: opts.OtherUsers})
	if err != nil {
		return Stack{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = reports.Close() })
	defer stop()
	defer func() { _ = reports.Close() }()

	var r report
	err = json.NewDecoder(reports).Decode(&r)
	switch {
	case ctx.Err() != nil:
		return Stack{}, context.Cause(ctx)
	case err != nil:
		return Stack{}, fmt.Errorf("it ended while starting; the end of %s says:\n%s", d.logFile(), logTail(d.logFile()))
	case r.Stack == nil:
		return Stack{}, errors.New(r.Error)
	}
	return *r.Stack, nil
}

// spawnChild passes the locked file itself to the child, so that the lock is never free in between.
// It returns the pipe for the child's report.
func (d directory) spawnChild(owner *os.File, o order) (*os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find our own program: %w", err)
	}
	input, _ := json.Marshal(o) // an order always has a JSON form
	logs, err := d.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }()
	reports, reportsIn, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe to the child: %w", err)
	}
	defer func() { _ = reportsIn.Close() }()

	child := exec.Command(self, ChildCommand)
	child.Dir = string(d)
	child.Env = childEnvironment(os.Environ())
	child.Stdin = bytes.NewReader(input)
	child.Stdout, child.Stderr = logs, logs
	child.ExtraFiles = []*os.File{owner, reportsIn}
	detachChild(child)
	if err := child.Start(); err != nil {
		_ = reports.Close()
		return nil, fmt.Errorf("run %s %s: %w", self, ChildCommand, err)
	}
	// Wait prevents a zombie process. Errors are in the child's report and log.
	go func() { _ = child.Wait() }()
	return reports, nil
}

// openLog opens a new log and renames the previous one to stack.log.1.
func (d directory) openLog() (*os.File, error) {
	name := d.logFile()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the log: %w", err)
	}
	if err := os.Rename(name, name+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep the previous log: %w", err)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return file, nil
}

// childEnvironment returns only the basic variables, so that the servers see no keys or other settings.
func childEnvironment(all []string) []string {
	var kept []string
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "TZ", "LANG", "GODEBUG", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GOTRACEBACK", "GORACE", "GOCOVERDIR":
			kept = append(kept, entry)
		}
	}
	return kept
}

func logTail(name string) string {
	const most = 2000
	file, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, io.SeekEnd)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(content))
}
