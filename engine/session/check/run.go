package check

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"conclave/engine/files/artifact"
	"conclave/engine/files/filelock"
	"conclave/engine/text"
)

// timeLimit bounds one check.
const timeLimit = 60 * time.Second

// Limits of the output of a check, in bytes.
const (
	maxOutput = 64 << 10 // compared with the expected output
	maxKept   = 2 << 10  // kept on record
)

// answerFile is the file with the answer's text in the copy in which a user's check runs.
const answerFile = ".conclave/answer.md"

// Confined is a command that runs confined in a directory.
type Confined struct {
	Dir      string // absolute path
	Command  string // command for sh -c
	ReadOnly []string
	Env      map[string]string
	Time     time.Duration
	Stdout   io.Writer
	Stderr   io.Writer

	Base *artifact.Base // the files that the session started from; nil for none
}

// Ended is the outcome of a Confined command.
type Ended struct {
	Code  int
	Limit string // the limit that ended it; empty if it ended by itself
}

// Result is the outcome of a check on an answer.
type Result struct {
	Check    string  `json:"check"` // ID of the check
	Name     string  `json:"name"`
	Passed   bool    `json:"passed"`
	ExitCode *int    `json:"exit_code"` // null if a limit ended it
	Limit    string  `json:"limit,omitempty"`
	Seconds  float64 `json:"seconds"`
	Output   string  `json:"output"` // truncated text
}

// Title returns the name of the check, or else its ID.
func (r Result) Title() string { return cmp.Or(r.Name, r.Check) }

// Answer is an answer to check.
type Answer struct {
	Files artifact.Manifest
	Text  string
}

// Runner runs checks.
type Runner struct {
	Store   artifact.Store
	Layout  artifact.Layout
	Scratch string // directory of the copies; empty for the system's

	Time time.Duration // limit of one check; 0 for a minute

	// Confine runs a command; an error is a fault of the host.
	Confine func(context.Context, Confined) (Ended, error)
}

// Run runs a check in a fresh copy of an answer's files, without the checks that the answer
// came with. An error says nothing about the answer.
func (r Runner) Run(ctx context.Context, a Answer, d Definition) (result Result, err error) {
	base, err := os.MkdirTemp(r.Scratch, "conclave-check-")
	if err != nil {
		return Result{}, fmt.Errorf("make a directory for a check: %w", err)
	}
	defer func() { _ = filelock.RemoveTree(base) }()
	dir := filepath.Join(base, "files")
	if err := r.copyFiles(ctx, a, d, dir); err != nil {
		return Result{}, err
	}
	var stdout, all bounded
	began := time.Now()
	ended, err := r.Confine(ctx, Confined{
		Dir: dir, Command: d.Command, ReadOnly: []string{".conclave"}, Base: r.Layout.Base(), Time: cmp.Or(r.Time, timeLimit),
		Env: map[string]string{"CONCLAVE_ANSWER": answerFile}, Stdout: io.MultiWriter(&stdout, &all), Stderr: &all,
	})
	if err != nil {
		return Result{}, fmt.Errorf("run the check %s: %w", d.ID, err)
	}
	result = Result{Check: d.ID, Name: d.Name, Limit: ended.Limit, Seconds: time.Since(began).Seconds(), Output: text.Truncate(strings.ToValidUTF8(all.String(), "\uFFFD"), maxKept)}
	if ended.Limit == "" {
		result.ExitCode = &ended.Code
		result.Passed = ended.Code == d.ExitCode && d.hasPrinted(&stdout)
	}
	return result, nil
}

// hasPrinted reports whether the output equals the expected one, apart from line breaks at the
// end.
func (d Definition) hasPrinted(stdout *bounded) bool {
	return d.Stdout == nil || !stdout.cut && strings.TrimRight(stdout.String(), "\n") == strings.TrimRight(*d.Stdout, "\n")
}

// copyFiles writes the files of the answer and of the check. An agent's check does not see the
// text.
func (r Runner) copyFiles(ctx context.Context, a Answer, d Definition, dir string) error {
	files := Without(a.Files)
	if err := files.Restore(ctx, r.Store, r.Layout, dir, false); err != nil {
		return err
	}
	if err := d.Files.Restore(ctx, r.Store, r.Layout, dir, false); err != nil || !d.User {
		return err
	}
	name := filepath.Join(dir, filepath.FromSlash(answerFile))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("write the answer for a check: %w", err)
	}
	return os.WriteFile(name, []byte(a.Text), 0o600)
}

// bounded keeps the beginning of a command's output. Stdout and stderr may be written to it
// concurrently.
type bounded struct {
	mu  sync.Mutex
	buf bytes.Buffer
	cut bool
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Write drops the bytes beyond the limit.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := maxOutput - b.buf.Len()
	if len(p) > room {
		b.cut = true
		_, _ = b.buf.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.buf.Write(p)
}
